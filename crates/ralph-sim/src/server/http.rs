//! The part of HTTP/1.1 that clients of the Messages API use. Every size and every wait has a limit.

use super::large_body_slot::{LargeBodyPermit, LargeBodySlot, SMALL_BODY_BYTES};
use ralph_sys::clock::Deadline;
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;
pub(super) const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
const READ_BLOCK_BYTES: usize = 64 * 1024;
/// How long a connection may stay open without a request.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);
/// How long a request may take to arrive after its first byte.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may take to accept a part of an answer.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct HttpRequest {
    pub(super) method: String,
    /// Without the query string.
    pub(super) path: String,
    version: HttpMinorVersion,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Held as long as a large body, or the data parsed from it, is in memory.
    pub(super) permit: Option<LargeBodyPermit>,
}

/// The minor version of HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HttpMinorVersion {
    /// Supports neither chunked encoding nor persistent connections.
    Zero,
    One,
}

impl HttpRequest {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    fn header_values(&self, name: &str) -> impl Iterator<Item = &str> {
        let found = self.headers.iter().filter(move |(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether the client expects the connection to be closed after the answer.
    fn is_last(&self) -> bool {
        let mut tokens = self.header_values("connection").flat_map(|value| value.split(','));
        self.version == HttpMinorVersion::Zero
            || tokens.any(|token| token.trim().eq_ignore_ascii_case("close"))
    }

    /// Whether the request comes from a page in a browser, which can reach this server and would consume a turn of the
    /// script. A browser sends `Origin`, or a `Host` under which the page was loaded.
    fn is_from_browser(&self) -> bool {
        self.header("origin").is_some() || !self.header_values("host").all(is_local_host)
    }
}

fn is_local_host(host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.split_once(':') {
        Some((name, port)) if is_port(port) => name,
        Some(_) | None => host,
    };
    name == "127.0.0.1" || name.eq_ignore_ascii_case("localhost")
}

#[derive(Debug)]
pub(super) enum ReceivedRequest {
    Complete(HttpRequest),
    /// An invalid request. The connection must be closed after the error is sent.
    Invalid(HttpRejection),
    /// The client closed the connection or sent nothing in time.
    Disconnected,
}

#[derive(Debug)]
pub(super) struct HttpRejection {
    pub(super) status: u16,
    /// The API's error type.
    pub(super) kind: &'static str,
    pub(super) message: String,
}

fn invalid_request(message: &str) -> HttpRejection {
    HttpRejection { status: 400, kind: "invalid_request_error", message: message.to_owned() }
}

pub(super) struct HttpConnection {
    stream: TcpStream,
    /// Received bytes that are not consumed yet.
    buffer: Vec<u8>,
    slot: LargeBodySlot,
    answering: HttpAnswerMode,
}

/// How to answer the last request.
#[derive(Clone, Copy, Debug)]
struct HttpAnswerMode {
    version: HttpMinorVersion,
    is_last: bool,
}

struct HttpRequestHead {
    request: HttpRequest,
    /// Length of the head in bytes.
    head_len: usize,
    /// Length of the body in bytes.
    body_len: usize,
    expects_continue: bool,
}

impl HttpConnection {
    pub(super) fn new(stream: TcpStream, room: LargeBodySlot) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        let answering = HttpAnswerMode { version: HttpMinorVersion::One, is_last: false };
        Ok(Self { stream, buffer: Vec::new(), slot: room, answering })
    }

    pub(super) fn receive(&mut self) -> ReceivedRequest {
        match self.try_receive() {
            Ok(Some(request)) => ReceivedRequest::Complete(request),
            Ok(None) => ReceivedRequest::Disconnected,
            Err(wrong) => {
                self.answering.is_last = true;
                ReceivedRequest::Invalid(wrong)
            }
        }
    }

    /// Whether the connection is to be closed after the answer.
    pub(super) fn is_last(&self) -> bool {
        self.answering.is_last
    }

    fn try_receive(&mut self) -> Result<Option<HttpRequest>, HttpRejection> {
        if self.buffer.is_empty() && !self.read_more(Deadline::after(IDLE_TIMEOUT)) {
            return Ok(None);
        }
        let deadline = Deadline::after(REQUEST_TIMEOUT);
        let head = loop {
            let arrived = self.buffer.get(..MAX_HEAD_BYTES).unwrap_or(&self.buffer);
            if let Some(head) = parse_head(arrived)? {
                break head;
            }
            if arrived.len() == MAX_HEAD_BYTES {
                return Err(invalid_request("the request head is too large"));
            }
            if !self.read_more(deadline) {
                return Err(invalid_request("incomplete request"));
            }
        };
        if head.request.is_from_browser() {
            let message = "requests from browser pages are refused: `Origin` is set, or `Host` is \
                           neither 127.0.0.1 nor localhost";
            let (status, kind) = (403, "permission_error");
            return Err(HttpRejection { status, kind, message: message.to_owned() });
        }
        let request = &head.request;
        self.answering = HttpAnswerMode { version: request.version, is_last: request.is_last() };
        let room = if head.body_len > SMALL_BODY_BYTES {
            Some(self.acquire_permit(deadline)?)
        } else {
            None
        };
        if head.expects_continue {
            // A failed write shows up as a failed read below.
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok();
        }
        let end = head.head_len + head.body_len;
        while self.buffer.len() < end {
            if !self.read_more(deadline) {
                return Err(invalid_request("incomplete request"));
            }
        }
        let rest = self.buffer.split_off(end);
        let mut taken = std::mem::replace(&mut self.buffer, rest);
        let body = taken.split_off(head.head_len);
        Ok(Some(HttpRequest { body, permit: room, ..head.request }))
    }

    fn acquire_permit(&self, deadline: Deadline) -> Result<LargeBodyPermit, HttpRejection> {
        self.slot.acquire(deadline).ok_or_else(|| {
            let message = "another large request is being read".to_owned();
            HttpRejection { status: 529, kind: "overloaded_error", message }
        })
    }

    /// Reads more bytes into the buffer. Returns `false` if none arrive before the deadline.
    fn read_more(&mut self, deadline: Deadline) -> bool {
        let mut block = vec![0; READ_BLOCK_BYTES];
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
    pub(super) fn disconnects_within(&mut self, wait: Duration) -> bool {
        let mut block = [0; 1];
        if wait.is_zero() || self.stream.set_read_timeout(Some(wait)).is_err() {
            return false;
        }
        match self.stream.peek(&mut block) {
            Ok(0) => true,
            Ok(_) => {
                // The next request is already there, so `peek` no longer waits.
                ralph_sys::clock::sleep(wait);
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

    pub(super) fn send_json(&mut self, answer: &HttpAnswer<'_>) -> io::Result<()> {
        let body = answer.body.to_string();
        let mut bytes = format!(
            "HTTP/1.1 {} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            answer.status,
            status_phrase(answer.status),
            body.len()
        );
        for (name, value) in answer.headers {
            bytes.push_str(&format!("{name}: {value}\r\n"));
        }
        bytes.push_str(self.close_header());
        bytes.push_str("\r\n");
        if !answer.is_head_only {
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
            HttpMinorVersion::One => "transfer-encoding: chunked\r\n",
            HttpMinorVersion::Zero => "",
        };
        let farewell = self.close_header();
        let named = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let named: String = named.collect();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
             cache-control: no-cache\r\n{framing}{named}{farewell}\r\n"
        );
        self.send(head.as_bytes())?;
        for event in events {
            match self.answering.version {
                HttpMinorVersion::One => self.send(format_chunk(event).as_bytes())?,
                HttpMinorVersion::Zero => self.send(event.as_bytes())?,
            }
        }
        match self.answering.version {
            HttpMinorVersion::One => self.send(b"0\r\n\r\n"),
            HttpMinorVersion::Zero => Ok(()),
        }
    }

    fn close_header(&self) -> &'static str {
        if self.is_last() { "connection: close\r\n" } else { "" }
    }

    /// Closes the connection after the client has read the answer. Closing a socket with unread input would reset it
    /// and could discard the answer.
    pub(super) fn close(mut self) {
        self.stream.shutdown(std::net::Shutdown::Write).ok();
        let deadline = Deadline::after(Duration::from_millis(200));
        for _ in 0..MAX_BODY_BYTES / READ_BLOCK_BYTES {
            if !self.read_more(deadline) {
                return;
            }
            self.buffer.clear();
        }
    }
}

#[derive(Debug)]
pub(super) struct HttpAnswer<'a> {
    pub(super) status: u16,
    pub(super) body: &'a Value,
    pub(super) headers: &'a [(&'a str, &'a str)],
    /// For the method `HEAD`.
    pub(super) is_head_only: bool,
}

/// An error in the format of the API.
pub(super) fn error_body(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

/// One chunk of the chunked transfer encoding.
fn format_chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Parses the head of a request. Returns `None` if it is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<HttpRequestHead>, HttpRejection> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let len = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(invalid_request(&format!("not an HTTP request: {error}"))),
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
    let version =
        if parsed.version == Some(0) { HttpMinorVersion::Zero } else { HttpMinorVersion::One };
    let request = HttpRequest { method, path, version, headers, body: Vec::new(), permit: None };
    let body = parse_body_len(&request)?;
    let expects_go_ahead =
        request.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue"));
    Ok(Some(HttpRequestHead {
        request,
        head_len: len,
        body_len: body,
        expects_continue: expects_go_ahead,
    }))
}

fn parse_body_len(request: &HttpRequest) -> Result<usize, HttpRejection> {
    if request.header("transfer-encoding").is_some() {
        return Err(invalid_request("`transfer-encoding` is not supported, use `content-length`"));
    }
    let mut lengths = request.headers.iter().filter(|(name, _)| name == "content-length");
    let Some((_, length)) = lengths.next() else {
        return match request.method.as_str() {
            "GET" | "HEAD" => Ok(0),
            _ => Err(invalid_request("`content-length` is missing")),
        };
    };
    if lengths.any(|(_, other)| other != length) {
        return Err(invalid_request("conflicting `content-length` headers"));
    }
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(invalid_request("`content-length` is not a number"));
    }
    match length.parse() {
        Ok(length) if length <= MAX_BODY_BYTES => Ok(length),
        _ => {
            let message = "the request is larger than 64 MB".to_owned();
            Err(HttpRejection { status: 413, kind: "request_too_large", message })
        }
    }
}

fn status_phrase(status: u16) -> &'static str {
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
