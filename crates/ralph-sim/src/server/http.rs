//! As much of HTTP/1.1 as clients of the Messages API speak. Every size and every wait has a bound.

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
/// How long a connection may stay open while nothing is asked.
const IDLE: Duration = Duration::from_mins(5);
/// How long a request may take to arrive once it has begun.
const ARRIVAL: Duration = Duration::from_secs(30);
/// How long a client may take to accept a part of an answer.
const SEND: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// Without what follows `?`.
    pub(super) path: String,
    version: Version,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Kept for as long as a large body, or what is made of it, is there.
    pub(super) room: Option<Taken>,
}

/// Of HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// Knows neither chunks nor a second request.
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

    /// Whether the client hangs up after the answer, and waits for us to do the same.
    fn is_last(&self) -> bool {
        let mut tokens = self.all("connection").flat_map(|value| value.split(','));
        self.version == Version::Zero
            || tokens.any(|token| token.trim().eq_ignore_ascii_case("close"))
    }

    /// Every page that a browser shows can ask this server, and would take a turn of the script. A browser says from
    /// where a page comes, or by which name it was led here.
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
    /// Nothing that can be answered as asked; the connection is of no more use.
    Wrong(Wrong),
    /// The client is gone, or has nothing more to ask.
    Gone,
}

#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) status: u16,
    /// As the API calls it.
    pub(super) kind: &'static str,
    pub(super) message: String,
}

fn wrong(message: &str) -> Wrong {
    Wrong { status: 400, kind: "invalid_request_error", message: message.to_owned() }
}

pub(super) struct Connection {
    stream: TcpStream,
    /// What has arrived and was not taken yet.
    buffer: Vec<u8>,
    room: Room,
    answering: Answering,
}

/// How the request that arrived last is answered.
#[derive(Clone, Copy, Debug)]
struct Answering {
    version: Version,
    is_last: bool,
}

struct Head {
    request: Request,
    /// Bytes of the head.
    len: usize,
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

    /// Whether there is nothing to come after the answer.
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
                return Err(wrong("the head of the request is too large"));
            }
            if !self.fill(deadline) {
                return Err(wrong("the request broke off"));
            }
        };
        if head.request.is_foreign() {
            let message = "pages of a browser are not served: `Origin` is said, or `Host` is \
                           neither 127.0.0.1 nor localhost";
            let (status, kind) = (403, "permission_error");
            return Err(Wrong { status, kind, message: message.to_owned() });
        }
        let request = &head.request;
        self.answering = Answering { version: request.version, is_last: request.is_last() };
        let room = if head.body > SMALL { Some(self.take_room(deadline)?) } else { None };
        if head.expects_go_ahead {
            // Whoever cannot be told goes away, and is found gone below.
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok();
        }
        let end = head.len + head.body;
        while self.buffer.len() < end {
            if !self.fill(deadline) {
                return Err(wrong("the request broke off"));
            }
        }
        let rest = self.buffer.split_off(end);
        let mut taken = std::mem::replace(&mut self.buffer, rest);
        let body = taken.split_off(head.len);
        Ok(Some(Request { body, room, ..head.request }))
    }

    fn take_room(&self, deadline: Deadline) -> Result<Taken, Wrong> {
        self.room.take(deadline).ok_or_else(|| {
            let message = "other large requests are being read".to_owned();
            Wrong { status: 529, kind: "overloaded_error", message }
        })
    }

    /// Waits for more; `false` when there is none until then.
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

    /// Whether the client hangs up within this time. What it sends instead is kept.
    pub(super) fn hangs_up_within(&mut self, wait: Duration) -> bool {
        let mut block = [0; 1];
        if wait.is_zero() || self.stream.set_read_timeout(Some(wait)).is_err() {
            return false;
        }
        match self.stream.peek(&mut block) {
            Ok(0) => true,
            Ok(_) => {
                // Sent before its time: there is nothing to wait with but the clock.
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

    /// Events one by one, as they would come.
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

    /// Lets the client read what was sent before the connection is closed: unread input would take it back.
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
    /// Asked for by `HEAD`.
    HeadOnly,
}

#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    pub(super) body: &'a Value,
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) with: With,
}

/// The API's way to say that something failed.
pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

/// A chunk of a body whose length is not known in advance.
fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// The head of a request, when all of it has arrived.
fn head(bytes: &[u8]) -> Result<Option<Head>, Wrong> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let len = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(wrong(&format!("this is no HTTP: {error}"))),
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
        return Err(wrong("the length of the body has to be said in `content-length`"));
    }
    let mut lengths = request.headers.iter().filter(|(name, _)| name == "content-length");
    let Some((_, length)) = lengths.next() else {
        return match request.method.as_str() {
            "GET" | "HEAD" => Ok(0),
            _ => Err(wrong("`content-length` is missing")),
        };
    };
    if lengths.any(|(_, other)| other != length) {
        return Err(wrong("`content-length` is said twice"));
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
