//! The part of HTTP/1.1 that clients of the Messages API use. Every size and every wait has a limit.

use super::room::{Room, SMALL, Taken};
use ralph_sys::clock::Deadline;
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const LARGEST_HEAD: usize = 64 * 1024;
const MOST_HEADERS: usize = 100;
pub(super) const LARGEST_BODY: usize = 64 * 1024 * 1024;
const BLOCK: usize = 64 * 1024;
/// How long a connection may stay open without a request.
const IDLE: Duration = Duration::from_mins(5);
/// How long a request may take to arrive after its first byte.
const ARRIVAL: Duration = Duration::from_secs(30);
/// How long a client may take to accept a part of an answer.
const SEND: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// Without the query string.
    pub(super) path: String,
    version: Version,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Held as long as a large body, or the data parsed from it, is in memory.
    pub(super) room: Option<Taken>,
}

/// The minor version of HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// Supports neither chunked encoding nor persistent connections.
    Zero,
    One,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let found = self.headers.iter().filter(move |(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether the client expects the connection to be closed after the answer.
    fn is_last(&self) -> bool {
        let mut tokens = self.all("connection").flat_map(|value| value.split(','));
        self.version == Version::Zero
            || tokens.any(|token| token.trim().eq_ignore_ascii_case("close"))
    }

    /// Whether the request comes from a page in a browser, which can reach this server and would consume a turn of the
    /// script. A browser sends `Origin`, or a `Host` under which the page was loaded.
    fn is_foreign(&self) -> bool {
        self.header("origin").is_some() || !self.all("host").all(is_this_machine)
    }
}

fn is_this_machine(host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.split_once(':') {
        Some((name, port)) if is_port(port) => name,
        Some(_) | None => host,
    };
    name == "127.0.0.1" || name.eq_ignore_ascii_case("localhost")
}

#[derive(Debug)]
pub(super) enum Received {
    Whole(Request),
    /// An invalid request. The connection must be closed after the error is sent.
    Wrong(Wrong),
    /// The client closed the connection or sent nothing in time.
    Gone,
}

#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) status: u16,
    /// The API's error type.
    pub(super) kind: &'static str,
    pub(super) message: String,
}

fn wrong(message: &str) -> Wrong {
    Wrong { status: 400, kind: "invalid_request_error", message: message.to_owned() }
}

pub(super) struct Connection {
    stream: TcpStream,
    /// Received bytes that are not consumed yet.
    buffer: Vec<u8>,
    room: Room,
    answering: Answering,
}

/// How to answer the last request.
#[derive(Clone, Copy, Debug)]
struct Answering {
    version: Version,
    is_last: bool,
}

struct Head {
    request: Request,
    /// Length of the head in bytes.
    len: usize,
    /// Length of the body in bytes.
    body: usize,
    expects_go_ahead: bool,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, room: Room) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(SEND))?;
        let answering = Answering { version: Version::One, is_last: false };
        Ok(Self { stream, buffer: Vec::new(), room, answering })
    }

    pub(super) fn receive(&mut self) -> Received {
        match self.try_receive() {
            Ok(Some(request)) => Received::Whole(request),
            Ok(None) => Received::Gone,
            Err(wrong) => {
                self.answering.is_last = true;
                Received::Wrong(wrong)
            }
        }
    }

    /// Whether the connection is to be closed after the answer.
    pub(super) fn is_last(&self) -> bool {
        self.answering.is_last
    }

    fn try_receive(&mut self) -> Result<Option<Request>, Wrong> {
        if self.buffer.is_empty() && !self.fill(Deadline::after(IDLE)) {
            return Ok(None);
        }
        let deadline = Deadline::after(ARRIVAL);
        let head = loop {
            let arrived = self.buffer.get(..LARGEST_HEAD).unwrap_or(&self.buffer);
            if let Some(head) = head(arrived)? {
                break head;
            }
            if arrived.len() == LARGEST_HEAD {
                return Err(wrong("the request head is too large"));
            }
            if !self.fill(deadline) {
                return Err(wrong("incomplete request"));
            }
        };
        if head.request.is_foreign() {
            let message = "requests from browser pages are refused: `Origin` is set, or `Host` is \
                           neither 127.0.0.1 nor localhost";
            let (status, kind) = (403, "permission_error");
            return Err(Wrong { status, kind, message: message.to_owned() });
        }
        let request = &head.request;
        self.answering = Answering { version: request.version, is_last: request.is_last() };
        let room = if head.body > SMALL { Some(self.take_room(deadline)?) } else { None };
        if head.expects_go_ahead {
            // A failed write shows up as a failed read below.
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok();
        }
        let end = head.len + head.body;
        while self.buffer.len() < end {
            if !self.fill(deadline) {
                return Err(wrong("incomplete request"));
            }
        }
        let rest = self.buffer.split_off(end);
        let mut taken = std::mem::replace(&mut self.buffer, rest);
        let body = taken.split_off(head.len);
        Ok(Some(Request { body, room, ..head.request }))
    }

    fn take_room(&self, deadline: Deadline) -> Result<Taken, Wrong> {
        self.room.take(deadline).ok_or_else(|| {
            let message = "another large request is being read".to_owned();
            Wrong { status: 529, kind: "overloaded_error", message }
        })
    }

    /// Reads more bytes into the buffer. Returns `false` if none arrive before the deadline.
    fn fill(&mut self, deadline: Deadline) -> bool {
        let mut block = vec![0; BLOCK];
        loop {
            let left = deadline.remaining();
            if left.is_zero() || self.stream.set_read_timeout(Some(left)).is_err() {
                return false;
            }
            match self.stream.read(&mut block) {
                Ok(0) => return false,
                Ok(count) => {
                    self.buffer.extend_from_slice(block.get(..count).unwrap_or_default());
                    return true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// Waits, and returns whether the client closed the connection. Bytes that it sends meanwhile are kept.
    pub(super) fn hangs_up_within(&mut self, wait: Duration) -> bool {
        let mut block = [0; 1];
        if wait.is_zero() || self.stream.set_read_timeout(Some(wait)).is_err() {
            return false;
        }
        match self.stream.peek(&mut block) {
            Ok(0) => true,
            Ok(_) => {
                // The next request is already there, so `peek` no longer waits.
                ralph_sys::clock::pause(wait);
                false
            }
            Err(error) => {
                let passing = [
                    io::ErrorKind::WouldBlock,
                    io::ErrorKind::TimedOut,
                    io::ErrorKind::Interrupted,
                ];
                !passing.contains(&error.kind())
            }
        }
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub(super) fn send_json(&mut self, answer: &Answer<'_>) -> io::Result<()> {
        let body = answer.body.to_string();
        let mut bytes = format!(
            "HTTP/1.1 {} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            answer.status,
            phrase(answer.status),
            body.len()
        );
        for (name, value) in answer.headers {
            bytes.push_str(&format!("{name}: {value}\r\n"));
        }
        bytes.push_str(self.farewell());
        bytes.push_str("\r\n");
        if answer.with == With::Body {
            bytes.push_str(&body);
        }
        self.send(bytes.as_bytes())
    }

    /// Sends the events one by one, as a stream.
    pub(super) fn send_events(
        &mut self,
        headers: &[(&str, &str)],
        events: &[String],
    ) -> io::Result<()> {
        let framing = match self.answering.version {
            Version::One => "transfer-encoding: chunked\r\n",
            Version::Zero => "",
        };
        let farewell = self.farewell();
        let named = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let named: String = named.collect();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
             cache-control: no-cache\r\n{framing}{named}{farewell}\r\n"
        );
        self.send(head.as_bytes())?;
        for event in events {
            match self.answering.version {
                Version::One => self.send(chunk(event).as_bytes())?,
                Version::Zero => self.send(event.as_bytes())?,
            }
        }
        match self.answering.version {
            Version::One => self.send(b"0\r\n\r\n"),
            Version::Zero => Ok(()),
        }
    }

    fn farewell(&self) -> &'static str {
        if self.is_last() { "connection: close\r\n" } else { "" }
    }

    /// Closes the connection after the client has read the answer. Closing a socket with unread input would reset it and
    /// could discard the answer.
    pub(super) fn close(mut self) {
        self.stream.shutdown(std::net::Shutdown::Write).ok();
        let deadline = Deadline::after(Duration::from_millis(200));
        for _ in 0..LARGEST_BODY / BLOCK {
            if !self.fill(deadline) {
                return;
            }
            self.buffer.clear();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum With {
    Body,
    /// For the method `HEAD`.
    HeadOnly,
}

#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    pub(super) body: &'a Value,
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) with: With,
}

/// An error in the format of the API.
pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

/// One chunk of the chunked transfer encoding.
fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Parses the head of a request. Returns `None` if it is incomplete.
fn head(bytes: &[u8]) -> Result<Option<Head>, Wrong> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let len = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(wrong(&format!("not an HTTP request: {error}"))),
    };
    let headers: Vec<(String, String)> = parsed
        .headers
        .iter()
        .map(|header| {
            let value = String::from_utf8_lossy(header.value).into_owned();
            (header.name.to_ascii_lowercase(), value)
        })
        .collect();
    let target = parsed.path.unwrap_or_default();
    let path = target.split_once('?').map_or(target, |(path, _)| path).to_owned();
    let method = parsed.method.unwrap_or_default().to_owned();
    let version = if parsed.version == Some(0) { Version::Zero } else { Version::One };
    let request = Request { method, path, version, headers, body: Vec::new(), room: None };
    let body = body_len(&request)?;
    let expects_go_ahead =
        request.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue"));
    Ok(Some(Head { request, len, body, expects_go_ahead }))
}

fn body_len(request: &Request) -> Result<usize, Wrong> {
    if request.header("transfer-encoding").is_some() {
        return Err(wrong("`transfer-encoding` is not supported, use `content-length`"));
    }
    let mut lengths = request.headers.iter().filter(|(name, _)| name == "content-length");
    let Some((_, length)) = lengths.next() else {
        return match request.method.as_str() {
            "GET" | "HEAD" => Ok(0),
            _ => Err(wrong("`content-length` is missing")),
        };
    };
    if lengths.any(|(_, other)| other != length) {
        return Err(wrong("conflicting `content-length` headers"));
    }
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(wrong("`content-length` is not a number"));
    }
    match length.parse() {
        Ok(length) if length <= LARGEST_BODY => Ok(length),
        _ => {
            let message = "the request is larger than 64 MB".to_owned();
            Err(Wrong { status: 413, kind: "request_too_large", message })
        }
    }
}

fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        529 => "Overloaded",
        _ => "Error",
    }
}
