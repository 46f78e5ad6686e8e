//! Binds the socket, accepts connections within limits, and ends when it is cancelled.

use crate::access::{AccessKeys, SecretText};
use crate::allowed_hosts::AllowedHosts;
use crate::guard::LocalAddress;
use crate::live_hub::LiveHub;
use crate::router;
use crate::run_actions::RunCommands;
use crate::server_state::ServerState;
use crate::timed_stream::TimedStream;
use axum::{Extension, Router};
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
/// How long a head may take to arrive, and how long a connection may stay open without a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_HEAD_BYTES: usize = 32 * 1024;
const MAX_HEADERS: usize = 64;
/// The pause after a failed accept, which happens when this process has too many files open.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(200);
/// How long an action that is under way may take when the server ends.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The port that is used if it is free, so that a bookmark stays valid.
const USUAL_PORT: u16 = 7391;

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
        let listener = bind_socket(request)?;
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
            env,
            live: LiveHub::new(&home),
            home,
            commands: Box::new(commands),
            renders: ServerState::new_render_slots(),
        };
        Ok(Self { listener, address, state: Arc::new(state), token, metrics_token, cancel })
    }

    /// The address for a browser, without the token.
    pub fn url(&self) -> String {
        let ip = match self.address.ip() {
            ip if ip.is_unspecified() && ip.is_ipv4() => IpAddr::from([127, 0, 0, 1]),
            ip if ip.is_unspecified() => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
            ip => ip,
        };
        format!("http://{}/", SocketAddr::new(ip, self.address.port()))
    }

    /// The link for the person. It is valid until the server ends.
    pub fn link(&self) -> String {
        format!("{}enter?token={}", self.url(), self.token.as_str())
    }

    /// A link that is valid once, for a program whose arguments other processes can see.
    pub fn single_use_link(&self) -> Option<String> {
        let token = self.state.access.add_single_use_token()?;
        Some(format!("{}enter?token={}", self.url(), token.as_str()))
    }

    /// The bearer token for the metrics, if they were asked for.
    pub fn metrics_token(&self) -> Option<&str> {
        self.metrics_token.as_ref().map(SecretText::as_str)
    }

    pub fn is_loopback(&self) -> bool {
        self.address.ip().is_loopback()
    }

    /// Answers until the token is cancelled.
    pub fn run(self) -> Result<(), PageServerError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(16)
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

fn bind_socket(request: ListenRequest) -> Result<TcpListener, PageServerError> {
    let bind = |port| {
        let address = SocketAddr::new(request.address, port);
        TcpListener::bind(address).map_err(|source| PageServerError::Listen { address, source })
    };
    match request.port {
        Some(port) => bind(port),
        None => bind(USUAL_PORT).or_else(|_| bind(0)),
    }
}

async fn accept_connections(listener: &tokio::net::TcpListener, router: &Router) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // A client that finds no slot waits in the queue of the socket.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        let router = router.clone();
        tokio::spawn(async move {
            serve_connection(stream, router).await;
            drop(slot);
        });
    }
}

async fn serve_connection(stream: TcpStream, router: Router) {
    stream.set_nodelay(true).ok();
    let Ok(local) = stream.local_addr() else { return };
    let router = router.layer(Extension(LocalAddress(local)));
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
