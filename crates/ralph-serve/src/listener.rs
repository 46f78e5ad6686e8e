//! Binds the socket, accepts connections within limits, and ends when it is cancelled.

use crate::access::{AccessKeys, SecretText};
use crate::allowed_hosts::AllowedHosts;
use crate::change_totals::KnownChanges;
use crate::guard::LocalAddress;
use crate::live_hub::LiveHub;
use crate::open_connections::{self, ConnectionActivity, OpenConnections};
use crate::router;
use crate::run_actions::RunCommands;
use crate::server_state::{self, ServerState, WorkSlots};
use crate::timed_stream::TimedStream;
use axum::{Extension, Router, middleware};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use ralph_home::paths::RalphHome;
use ralph_sys::env::Env;
use ralph_sys::proc::cancel::CancelToken;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// A browser opens six; this is for a few of them.
const MAX_CONNECTIONS: usize = 64;
/// How long a head may take to arrive, and how long a connection may stay open without a request. Shorter if others wait.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_HEAD_BYTES: usize = 32 * 1024;
const MAX_HEADERS: usize = 64;
/// The pause after a failed accept, which happens when this process has too many files open.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(200);
/// How often a client that waits makes the server look for a connection without a request.
const SLOT_RETRY_DELAY: Duration = Duration::from_millis(200);
/// How long an action that is under way may take when the server ends.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The port that is used if it is free, so that a bookmark stays valid.
pub const USUAL_PORT: u16 = 7391;

#[derive(Debug, Error)]
pub enum PageServerError {
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("the system has no random numbers for the link")]
    NoRandomNumbers,
    #[error("cannot start the server")]
    Start(#[source] io::Error),
}

/// Where to listen.
#[derive(Clone, Copy, Debug)]
pub struct ListenRequest {
    pub address: IpAddr,
    /// Without one, the usual port, or any free port if that is in use.
    pub port: Option<u16>,
    /// Whether a scraper may read the metrics with a token of its own.
    pub has_metrics: bool,
}

/// A server that is bound but does not answer yet.
#[derive(Debug)]
pub struct PageServer {
    listener: TcpListener,
    address: SocketAddr,
    has_other_port: bool,
    state: Arc<ServerState>,
    token: SecretText,
    metrics_token: Option<SecretText>,
    cancel: Arc<CancelToken>,
}

impl PageServer {
    /// Binds the socket. Browsers wait until [`PageServer::run`] is called.
    pub fn bind(
        request: ListenRequest,
        env: Env,
        home: RalphHome,
        commands: impl RunCommands,
        cancel: Arc<CancelToken>,
    ) -> Result<Self, PageServerError> {
        let (listener, has_other_port) = bind_socket(request)?;
        let address = listener.local_addr().map_err(PageServerError::Start)?;
        let (mut access, token) = AccessKeys::generate().ok_or(PageServerError::NoRandomNumbers)?;
        let metrics_token = if request.has_metrics {
            Some(access.add_metrics_token().ok_or(PageServerError::NoRandomNumbers)?)
        } else {
            None
        };
        let state = ServerState {
            access,
            hosts: AllowedHosts::of(address),
            port: address.port(),
            url: browser_url(address),
            env,
            live: LiveHub::new(&home),
            home,
            commands: Box::new(commands),
            changes: KnownChanges::default(),
            slots: WorkSlots::default(),
        };
        let state = Arc::new(state);
        Ok(Self { listener, address, has_other_port, state, token, metrics_token, cancel })
    }

    /// The address for a browser, without a token.
    pub fn url(&self) -> &str {
        &self.state.url
    }

    /// The link for the person. It opens one browser; [`RunCommands::report_entry`] gets the one after it.
    pub fn link(&self) -> String {
        self.state.link(&self.token)
    }

    /// A link that is valid for a short time, for a program whose arguments other processes can see.
    pub fn short_link(&self) -> Option<String> {
        Some(self.state.link(&self.state.access.add_short_link()?))
    }

    /// The bearer token for the metrics, if they were asked for.
    pub fn metrics_token(&self) -> Option<&str> {
        self.metrics_token.as_ref().map(SecretText::as_str)
    }

    /// Whether no port was asked for, and the usual one was not free.
    pub fn has_other_port(&self) -> bool {
        self.has_other_port
    }

    pub fn is_loopback(&self) -> bool {
        self.address.ip().is_loopback()
    }

    /// Whether it listens at all addresses of this machine, so that no single one is its address.
    pub fn is_at_every_address(&self) -> bool {
        self.address.ip().is_unspecified()
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Answers until the token is cancelled.
    pub fn run(self) -> Result<(), PageServerError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(server_state::MAX_THREADS)
            .build()
            .map_err(PageServerError::Start)?;
        self.state.live.start_watching(Arc::clone(&self.cancel)).map_err(PageServerError::Start)?;
        self.listener.set_nonblocking(true).map_err(PageServerError::Start)?;
        let outcome = runtime.block_on(async {
            let listener =
                tokio::net::TcpListener::from_std(self.listener).map_err(PageServerError::Start)?;
            let router = router::build_router(Arc::clone(&self.state));
            tokio::select! {
                () = accept_connections(&listener, &router) => {}
                () = self.state.live.wait_for_end() => {}
            }
            Ok(())
        });
        runtime.shutdown_timeout(END_TIMEOUT);
        outcome
    }
}

fn browser_url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        ip if ip.is_unspecified() && ip.is_ipv4() => IpAddr::from([127, 0, 0, 1]),
        ip if ip.is_unspecified() => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        ip => ip,
    };
    format!("http://{}/", SocketAddr::new(ip, address.port()))
}

/// The socket, and whether another port than the usual one had to be used.
fn bind_socket(request: ListenRequest) -> Result<(TcpListener, bool), PageServerError> {
    let bind = |port| {
        let address = SocketAddr::new(request.address, port);
        TcpListener::bind(address).map_err(|source| PageServerError::Listen { address, source })
    };
    match request.port {
        Some(port) => Ok((bind(port)?, false)),
        None => match bind(USUAL_PORT) {
            Ok(listener) => Ok((listener, false)),
            Err(_) => Ok((bind(0)?, true)),
        },
    }
}

async fn accept_connections(listener: &tokio::net::TcpListener, router: &Router) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let connections = Arc::new(OpenConnections::default());
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        let slot = loop {
            if slots.available_permits() == 0 {
                // Connections of the same burst first read their requests, so that they do not count as idle.
                tokio::task::yield_now().await;
                connections.close_idle();
            }
            // If every connection has a request, this client waits, and others in the queue of the socket.
            let slot = Arc::clone(&slots).acquire_owned();
            match tokio::time::timeout(SLOT_RETRY_DELAY, slot).await {
                Ok(Ok(slot)) => break slot,
                Ok(Err(_closed)) => return,
                Err(_elapsed) => {}
            }
        };
        let (router, connection) = (router.clone(), connections.open());
        tokio::spawn(async move {
            tokio::select! {
                () = serve_connection(stream, router, connection.activity()) => {}
                () = connection.closed() => {}
            }
            drop((connection, slot));
        });
    }
}

async fn serve_connection(stream: TcpStream, router: Router, activity: ConnectionActivity) {
    stream.set_nodelay(true).ok();
    let Ok(local) = stream.local_addr() else { return };
    let router = router
        .layer(middleware::from_fn_with_state(activity, open_connections::mark_busy))
        .layer(Extension(LocalAddress(local)));
    let service = TowerToHyperService::new(router);
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS);
    // An error is a client that is gone, too slow or not speaking HTTP. hyper has answered it as far as possible.
    let _answered = builder.serve_connection(TokioIo::new(TimedStream::new(stream)), service).await;
}
