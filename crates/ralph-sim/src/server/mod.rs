//! A scripted model: serves the Anthropic Messages API on the loopback interface to the real client.
//!
//! The server stores no requests, so that it can serve a session of any length. An observer receives each of them.

mod http;
mod large_body_slot;
mod model_message;
mod model_request;
pub(crate) mod rate_limit_headers;

pub use model_request::RequestOrigin;

use crate::model_answer;
use crate::scenario::{ScriptedTurn, TurnInterrupt};
use crate::script::ModelScript;
use http::{HttpAnswer, HttpConnection, HttpRequest, ReceivedRequest};
use large_body_slot::{LargeBodyPermit, LargeBodySlot};
use model_message::ModelMessage;
use model_request::MessagesRequest;
use ralph_sys::clock::{self, Deadline};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The client's `ANTHROPIC_API_KEY`: a dummy value, not a secret.
pub const DUMMY_API_KEY: &str = "sk-ant-dummy-000000000000000000000000";
/// More connections than any client opens. Further ones are closed at once.
const MAX_CONNECTIONS: usize = 64;
/// How often a delayed answer checks whether the client is still connected.
const DISCONNECT_POLL: Duration = Duration::from_millis(50);
/// Minimum delay of an answer that the person interrupts.
const INTERRUPTED_ANSWER_DELAY: Duration = Duration::from_mins(1);
/// Pause after `accept` failed, for example for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(20);

/// Called for every request and every answer, on the thread that serves it.
pub type ModelObserver = Box<dyn Fn(ModelEvent) + Send + Sync>;

#[derive(Debug)]
pub enum ModelEvent {
    Requested(Box<ModelRequest>),
    Answered(ModelAnswer),
}

/// One request to the model.
#[derive(Debug)]
pub struct ModelRequest {
    /// Counted from 1. The ids in the answer derive from it.
    pub number: u64,
    pub at_ns: u64,
    pub origin: RequestOrigin,
    pub messages: Vec<Value>,
    /// The answer that will be sent.
    pub turn: ScriptedTurn,
    pub attempt: RequestAttempt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestAttempt {
    First,
    /// The client repeats a request that was answered with an error, and gets the same error.
    Retry,
}

#[derive(Clone, Copy, Debug)]
pub struct ModelAnswer {
    pub number: u64,
    pub at_ns: u64,
    /// Whether the client was still connected.
    pub is_received: bool,
}

/// Behavior when the turns of a prompt are exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptPace {
    /// Nothing: the driver of the client calls [`ModelServer::next_prompt`] for each prompt it sends.
    Driven,
    /// The turns of the next prompt, because the server does not see what a person types.
    InOrder,
}

pub struct ModelServerOptions {
    /// 0 for any free port.
    pub port: u16,
    /// Relative paths in tool calls are resolved against this directory.
    pub project: PathBuf,
    pub pace: ScriptPace,
    pub observer: ModelObserver,
}

impl std::fmt::Debug for ModelServerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("port", &self.port).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ModelServerError {
    #[error("cannot listen on 127.0.0.1, port {port}")]
    Listen { port: u16, source: io::Error },
    #[error("cannot start a thread for the model")]
    Thread(#[source] io::Error),
}

/// A running model server. Dropping it closes the listener and all connections.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<ModelServerState>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for ModelServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

struct ModelServerState {
    script: Mutex<ModelScript>,
    options: ModelServerOptions,
    requests: AtomicU64,
    is_over: AtomicBool,
    connections: Mutex<BTreeMap<u64, TcpStream>>,
    room: LargeBodySlot,
    /// The last request that was answered with an error (its hash), and that answer.
    failed: Mutex<Option<(u64, ScriptedTurn)>>,
}

pub fn serve(
    script: ModelScript,
    options: ModelServerOptions,
) -> Result<ModelServer, ModelServerError> {
    let port = options.port;
    let failed = |source| ModelServerError::Listen { port, source };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let shared = Arc::new(ModelServerState {
        script: Mutex::new(script),
        options,
        requests: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        connections: Mutex::default(),
        room: LargeBodySlot::new(),
        failed: Mutex::default(),
    });
    let theirs = Arc::clone(&shared);
    let thread = thread::Builder::new()
        .name("model".to_owned())
        .spawn(move || accept_connections(&listener, &theirs))
        .map_err(ModelServerError::Thread)?;
    Ok(ModelServer { address, shared, thread: Some(thread) })
}

impl ModelServer {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The client's `ANTHROPIC_BASE_URL`.
    pub fn url(&self) -> String {
        loopback_url(self.address.port())
    }

    /// Moves the script on to the next prompt, which the caller is about to send.
    pub fn next_prompt(&self) {
        lock_unpoisoned(&self.shared.script).start_next_prompt();
    }

    /// Whether the current prompt has turns left.
    pub fn has_turns(&self) -> bool {
        lock_unpoisoned(&self.shared.script).has_turns()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.shared.room.close();
        for stream in lock_unpoisoned(&self.shared.connections).values() {
            stream.shutdown(Shutdown::Both).ok();
        }
        // Wakes the thread that is blocked in `accept`.
        TcpStream::connect(self.address).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

pub(crate) fn loopback_url(port: u16) -> String {
    format!("http://{}:{port}", Ipv4Addr::LOCALHOST)
}

/// Ignores poisoning: no update under these locks can be left half done by a panic.
fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept_connections(listener: &TcpListener, shared: &ModelServerState) {
    thread::scope(|scope| {
        for id in 0.. {
            let accepted = listener.accept();
            if shared.is_over.load(Ordering::SeqCst) {
                return;
            }
            let Ok((stream, _)) = accepted else {
                clock::sleep(ACCEPT_RETRY_DELAY);
                continue;
            };
            if !register_connection(shared, id, &stream) {
                continue;
            }
            let serving = move || {
                serve_connection(stream, shared);
                lock_unpoisoned(&shared.connections).remove(&id);
            };
            if thread::Builder::new().spawn_scoped(scope, serving).is_err() {
                lock_unpoisoned(&shared.connections).remove(&id);
            }
        }
    });
}

/// Registers a connection. Returns `false` if there are too many.
fn register_connection(shared: &ModelServerState, id: u64, stream: &TcpStream) -> bool {
    let mut connections = lock_unpoisoned(&shared.connections);
    if connections.len() >= MAX_CONNECTIONS {
        return false;
    }
    let Ok(stream) = stream.try_clone() else { return false };
    connections.insert(id, stream);
    true
}

fn serve_connection(stream: TcpStream, shared: &ModelServerState) {
    let Ok(mut connection) = HttpConnection::new(stream, shared.room.clone()) else { return };
    while !shared.is_over.load(Ordering::SeqCst) {
        match connection.receive() {
            ReceivedRequest::Complete(request) => {
                if answer_request(&mut connection, shared, request).is_err() {
                    return;
                }
                if connection.is_last() {
                    connection.close();
                    return;
                }
            }
            ReceivedRequest::Invalid(wrong) => {
                let answer = HttpAnswer {
                    status: wrong.status,
                    body: &http::error_body(wrong.kind, &wrong.message),
                    headers: &[],
                    is_head_only: false,
                };
                if connection.send_json(&answer).is_ok() {
                    connection.close();
                }
                return;
            }
            ReceivedRequest::Disconnected => return,
        }
    }
}

fn answer_request(
    connection: &mut HttpConnection,
    shared: &ModelServerState,
    mut request: HttpRequest,
) -> io::Result<()> {
    let (status, body) = match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/v1/messages") => match model_request::parse_messages_request(&request) {
            Ok(asking) => {
                let room = request.permit.take();
                drop(request);
                return answer_messages_request(connection, shared, asking, room);
            }
            Err(message) => (400, http::error_body("invalid_request_error", &message)),
        },
        ("POST", "/v1/messages/count_tokens") => {
            match model_request::parse_messages_request(&request) {
                Ok(_) => (200, json!({"input_tokens": request.body.len() / 4 + 1})),
                Err(message) => (400, http::error_body("invalid_request_error", &message)),
            }
        }
        ("GET" | "HEAD", "/") => (200, json!({"type": "model", "id": "scenario"})),
        ("GET" | "HEAD", "/v1/models") => {
            let none = Value::Null;
            (200, json!({"data": [], "has_more": false, "first_id": none, "last_id": none}))
        }
        (_, path) => (404, http::error_body("not_found_error", &format!("unknown path {path}"))),
    };
    let is_head_only = request.method == "HEAD";
    connection.send_json(&HttpAnswer { status, body: &body, headers: &[], is_head_only })
}

fn answer_messages_request(
    connection: &mut HttpConnection,
    shared: &ModelServerState,
    asking: MessagesRequest,
    room: Option<LargeBodyPermit>,
) -> io::Result<()> {
    let DueTurn { origin, turn, attempt, number } = next_due_turn(shared, &asking);
    let MessagesRequest { model, is_streamed, messages, .. } = asking;
    let at_ns = clock::now_ns();
    let request = ModelRequest { number, at_ns, origin, messages, turn: turn.clone(), attempt };
    (shared.options.observer)(ModelEvent::Requested(Box::new(request)));
    drop(room);
    let sent = send_reply(
        connection,
        shared,
        &PendingReply { turn: &turn, number, model: &model, is_streamed },
    );
    let answered = ModelAnswer { number, at_ns: clock::now_ns(), is_received: sent.is_ok() };
    (shared.options.observer)(ModelEvent::Answered(answered));
    sent
}

struct DueTurn {
    origin: RequestOrigin,
    turn: ScriptedTurn,
    attempt: RequestAttempt,
    number: u64,
}

/// Takes the next turn of the script. The script stays locked, so that requests are numbered in the order of turns.
fn next_due_turn(shared: &ModelServerState, asking: &MessagesRequest) -> DueTurn {
    let hash = asking.hash();
    let mut script = lock_unpoisoned(&shared.script);
    let number = shared.requests.fetch_add(1, Ordering::SeqCst) + 1;
    let origin = asking.origin(&script);
    let mut failed = lock_unpoisoned(&shared.failed);
    if let Some((last, turn)) = failed.as_ref()
        && *last == hash
    {
        return DueTurn { origin, turn: turn.clone(), attempt: RequestAttempt::Retry, number };
    }
    let turn = match &origin {
        RequestOrigin::Summary => {
            ScriptedTurn { text: script.summary.clone(), ..ScriptedTurn::default() }
        }
        RequestOrigin::Agent(_) => script.next_subagent_turn(&asking.first_user_text()),
        RequestOrigin::Evaluator(kind) => {
            script.next_evaluator_turn(&asking.evaluator_question(*kind))
        }
        RequestOrigin::Main => {
            if shared.options.pace == ScriptPace::InOrder && !script.has_turns() {
                script.start_next_prompt();
            }
            script.next_turn()
        }
    };
    let is_error = turn.error.is_some()
        || turn.rate_limit.as_deref().is_some_and(rate_limit_headers::is_rejected);
    *failed = is_error.then(|| (hash, turn.clone()));
    DueTurn { origin, turn, attempt: RequestAttempt::First, number }
}

struct PendingReply<'a> {
    turn: &'a ScriptedTurn,
    number: u64,
    model: &'a str,
    is_streamed: bool,
}

fn send_reply(
    connection: &mut HttpConnection,
    shared: &ModelServerState,
    reply: &PendingReply<'_>,
) -> io::Result<()> {
    let delay = Duration::from_millis(reply.turn.delay_ms);
    let due = Deadline::after(match reply.turn.interrupt {
        TurnInterrupt::Answer => delay.max(INTERRUPTED_ANSWER_DELAY),
        TurnInterrupt::No | TurnInterrupt::Tools => delay,
    });
    while !due.has_passed() {
        let is_over = shared.is_over.load(Ordering::SeqCst);
        if is_over || connection.disconnects_within(due.remaining().min(DISCONNECT_POLL)) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
    }
    let id = model_answer::request_id(reply.number);
    let limits = reply
        .turn
        .rate_limit
        .as_deref()
        .map(rate_limit_headers::rate_limit_headers)
        .unwrap_or_default();
    let mut headers = vec![("request-id", id.as_str())];
    headers.extend(limits.iter().map(|(name, value)| (*name, value.as_str())));
    let rejection = reply.turn.rate_limit.as_deref().and_then(rate_limit_headers::rejection_error);
    if let Some(error) = reply.turn.error.as_ref().or(rejection.as_ref()) {
        headers.push(("x-should-retry", "false"));
        let body = http::error_body(&error.kind, &error.message);
        let answer = HttpAnswer {
            status: error.status,
            body: &body,
            headers: &headers,
            is_head_only: false,
        };
        return connection.send_json(&answer);
    }
    let PendingReply { turn, number, model, .. } = *reply;
    let message = ModelMessage { turn, number, model, project: &shared.options.project };
    if reply.is_streamed {
        return connection.send_events(&headers, &message.to_events());
    }
    let body = message.to_json();
    let answer = HttpAnswer { status: 200, body: &body, headers: &headers, is_head_only: false };
    connection.send_json(&answer)
}

#[cfg(test)]
mod tests;
