//! A scripted model: serves the Anthropic Messages API on the loopback interface to the real client.
//!
//! The server stores no requests, so that it can serve a session of any length. An observer receives each of them.

mod asked;
mod http;
mod limit;
mod message;
mod room;

pub use asked::Who;

use crate::scenario::{AgentTurn, Interrupt};
use crate::script::Script;
use crate::wire;
use asked::Asking;
use http::{Answer, Connection, Received, Request, With};
use message::Message;
use ralph_sys::clock::{self, Deadline};
use room::{Room, Taken};
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
pub const KEY: &str = "sk-ant-dummy-000000000000000000000000";
/// More connections than any client opens. Further ones are closed at once.
const MOST_CONNECTIONS: usize = 64;
/// How often a delayed answer checks whether the client is still connected.
const LOOK: Duration = Duration::from_millis(50);
/// Minimum delay of an answer that the person interrupts.
const HELD: Duration = Duration::from_mins(1);
/// Pause after `accept` failed, for example for lack of file descriptors.
const BREATH: Duration = Duration::from_millis(20);

/// Called for every request and every answer, on the thread that serves it.
pub type Observer = Box<dyn Fn(Happened) + Send + Sync>;

#[derive(Debug)]
pub enum Happened {
    Asked(Box<Asked>),
    Answered(Answered),
}

/// One request to the model.
#[derive(Debug)]
pub struct Asked {
    /// Counted from 1. The ids in the answer derive from it.
    pub number: u64,
    pub at_ns: u64,
    pub who: Who,
    pub messages: Vec<Value>,
    /// The answer that will be sent.
    pub turn: AgentTurn,
    pub nth: Nth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nth {
    First,
    /// The client repeats a request that was answered with an error, and gets the same error.
    Retry,
}

#[derive(Clone, Copy, Debug)]
pub struct Answered {
    pub number: u64,
    pub at_ns: u64,
    /// Whether the client was still connected.
    pub is_heard: bool,
}

/// What follows when the turns of a prompt are exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Nothing: the driver of the client calls [`ModelServer::next_prompt`] for each prompt it sends.
    Driven,
    /// The turns of the next prompt, because the server does not see what a person types.
    InOrder,
}

pub struct Options {
    /// 0 for any free port.
    pub port: u16,
    /// Relative paths in tool calls are resolved against this directory.
    pub project: PathBuf,
    pub pace: Pace,
    pub observer: Observer,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("port", &self.port).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("cannot listen on 127.0.0.1, port {port}")]
    Listen { port: u16, source: io::Error },
    #[error("cannot start a thread for the model")]
    Thread(#[source] io::Error),
}

/// A running model server. Dropping it closes the listener and all connections.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

struct Shared {
    script: Mutex<Script>,
    options: Options,
    requests: AtomicU64,
    is_over: AtomicBool,
    connections: Mutex<BTreeMap<u64, TcpStream>>,
    room: Room,
    /// The last request that was answered with an error (its hash), and that answer.
    failed: Mutex<Option<(u64, AgentTurn)>>,
}

pub fn serve(script: Script, options: Options) -> Result<Server, ServerError> {
    let port = options.port;
    let failed = |source| ServerError::Listen { port, source };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let shared = Arc::new(Shared {
        script: Mutex::new(script),
        options,
        requests: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        connections: Mutex::default(),
        room: Room::new(),
        failed: Mutex::default(),
    });
    let theirs = Arc::clone(&shared);
    let thread = thread::Builder::new()
        .name("model".to_owned())
        .spawn(move || accept(&listener, &theirs))
        .map_err(ServerError::Thread)?;
    Ok(Server { address, shared, thread: Some(thread) })
}

impl Server {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The client's `ANTHROPIC_BASE_URL`.
    pub fn url(&self) -> String {
        url(self.address.port())
    }

    /// Moves the script on to the next prompt, which the caller is about to send.
    pub fn next_prompt(&self) {
        locked(&self.shared.script).next_prompt();
    }

    /// Whether the current prompt has turns left.
    pub fn has_more(&self) -> bool {
        locked(&self.shared.script).has_more()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.shared.room.close();
        for stream in locked(&self.shared.connections).values() {
            stream.shutdown(Shutdown::Both).ok();
        }
        // Wakes the thread that is blocked in `accept`.
        TcpStream::connect(self.address).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

pub(crate) fn url(port: u16) -> String {
    format!("http://{}:{port}", Ipv4Addr::LOCALHOST)
}

/// Ignores poisoning: no update under these locks can be left half done by a panic.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, shared: &Shared) {
    thread::scope(|scope| {
        for id in 0.. {
            let accepted = listener.accept();
            if shared.is_over.load(Ordering::SeqCst) {
                return;
            }
            let Ok((stream, _)) = accepted else {
                clock::pause(BREATH);
                continue;
            };
            if !enter(shared, id, &stream) {
                continue;
            }
            let serving = move || {
                converse(stream, shared);
                locked(&shared.connections).remove(&id);
            };
            if thread::Builder::new().spawn_scoped(scope, serving).is_err() {
                locked(&shared.connections).remove(&id);
            }
        }
    });
}

/// Registers a connection. Returns `false` if there are too many.
fn enter(shared: &Shared, id: u64, stream: &TcpStream) -> bool {
    let mut connections = locked(&shared.connections);
    if connections.len() >= MOST_CONNECTIONS {
        return false;
    }
    let Ok(stream) = stream.try_clone() else { return false };
    connections.insert(id, stream);
    true
}

fn converse(stream: TcpStream, shared: &Shared) {
    let Ok(mut connection) = Connection::new(stream, shared.room.clone()) else { return };
    while !shared.is_over.load(Ordering::SeqCst) {
        match connection.receive() {
            Received::Whole(request) => {
                if answer(&mut connection, shared, request).is_err() {
                    return;
                }
                if connection.is_last() {
                    connection.close();
                    return;
                }
            }
            Received::Wrong(wrong) => {
                let answer = Answer {
                    status: wrong.status,
                    body: &http::error(wrong.kind, &wrong.message),
                    headers: &[],
                    with: With::Body,
                };
                if connection.send_json(&answer).is_ok() {
                    connection.close();
                }
                return;
            }
            Received::Gone => return,
        }
    }
}

fn answer(connection: &mut Connection, shared: &Shared, mut request: Request) -> io::Result<()> {
    let (status, body) = match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/v1/messages") => match asked::read(&request) {
            Ok(asking) => {
                let room = request.room.take();
                drop(request);
                return messages(connection, shared, asking, room);
            }
            Err(message) => (400, http::error("invalid_request_error", &message)),
        },
        ("POST", "/v1/messages/count_tokens") => match asked::read(&request) {
            Ok(_) => (200, json!({"input_tokens": request.body.len() / 4 + 1})),
            Err(message) => (400, http::error("invalid_request_error", &message)),
        },
        ("GET" | "HEAD", "/") => (200, json!({"type": "model", "id": "scenario"})),
        ("GET" | "HEAD", "/v1/models") => {
            let none = Value::Null;
            (200, json!({"data": [], "has_more": false, "first_id": none, "last_id": none}))
        }
        (_, path) => (404, http::error("not_found_error", &format!("unknown path {path}"))),
    };
    let with = if request.method == "HEAD" { With::HeadOnly } else { With::Body };
    connection.send_json(&Answer { status, body: &body, headers: &[], with })
}

fn messages(
    connection: &mut Connection,
    shared: &Shared,
    asking: Asking,
    room: Option<Taken>,
) -> io::Result<()> {
    let Next { who, turn, nth, number } = next(shared, &asking);
    let Asking { model, stream, messages, .. } = asking;
    let at_ns = clock::now_ns();
    let told = Asked { number, at_ns, who, messages, turn: turn.clone(), nth };
    (shared.options.observer)(Happened::Asked(Box::new(told)));
    drop(room);
    let sent = send(connection, shared, &Reply { turn: &turn, number, model: &model, stream });
    let answered = Answered { number, at_ns: clock::now_ns(), is_heard: sent.is_ok() };
    (shared.options.observer)(Happened::Answered(answered));
    sent
}

struct Next {
    who: Who,
    turn: AgentTurn,
    nth: Nth,
    number: u64,
}

/// Takes the next turn of the script. The script stays locked, so that requests are numbered in the order of turns.
fn next(shared: &Shared, asking: &Asking) -> Next {
    let hash = asking.hash();
    let mut script = locked(&shared.script);
    let number = shared.requests.fetch_add(1, Ordering::SeqCst) + 1;
    let who = asking.who(&script);
    let mut failed = locked(&shared.failed);
    if let Some((last, turn)) = failed.as_ref()
        && *last == hash
    {
        return Next { who, turn: turn.clone(), nth: Nth::Retry, number };
    }
    let turn = match &who {
        Who::Summary => AgentTurn { text: script.summary.clone(), ..AgentTurn::default() },
        Who::Agent(_) => script.agent_answer(&asking.task()),
        Who::Main => {
            if shared.options.pace == Pace::InOrder && !script.has_more() {
                script.next_prompt();
            }
            script.answer()
        }
    };
    let is_error =
        turn.error.is_some() || turn.rate_limit.as_deref().is_some_and(limit::is_rejected);
    *failed = is_error.then(|| (hash, turn.clone()));
    Next { who, turn, nth: Nth::First, number }
}

struct Reply<'a> {
    turn: &'a AgentTurn,
    number: u64,
    model: &'a str,
    stream: asked::Stream,
}

fn send(connection: &mut Connection, shared: &Shared, reply: &Reply<'_>) -> io::Result<()> {
    let delay = Duration::from_millis(reply.turn.delay_ms);
    let due = Deadline::after(match reply.turn.interrupt {
        Interrupt::Answer => delay.max(HELD),
        Interrupt::No | Interrupt::Tools => delay,
    });
    while !due.is_over() {
        let is_over = shared.is_over.load(Ordering::SeqCst);
        if is_over || connection.hangs_up_within(due.remaining().min(LOOK)) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
    }
    let id = wire::request_id(reply.number);
    let limits = reply.turn.rate_limit.as_deref().map(limit::headers).unwrap_or_default();
    let mut headers = vec![("request-id", id.as_str())];
    headers.extend(limits.iter().map(|(name, value)| (*name, value.as_str())));
    let rejection = reply.turn.rate_limit.as_deref().and_then(limit::rejection);
    if let Some(error) = reply.turn.error.as_ref().or(rejection.as_ref()) {
        headers.push(("x-should-retry", "false"));
        let body = http::error(&error.kind, &error.message);
        let answer =
            Answer { status: error.status, body: &body, headers: &headers, with: With::Body };
        return connection.send_json(&answer);
    }
    let Reply { turn, number, model, .. } = *reply;
    let message = Message { turn, number, model, project: &shared.options.project };
    match reply.stream {
        asked::Stream::Whole => {
            let body = message.whole();
            connection.send_json(&Answer {
                status: 200,
                body: &body,
                headers: &headers,
                with: With::Body,
            })
        }
        asked::Stream::Events => connection.send_events(&headers, &message.events()),
    }
}

#[cfg(test)]
mod tests;
