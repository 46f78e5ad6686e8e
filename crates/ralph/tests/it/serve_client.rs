//! Starts `ralph serve` and speaks HTTP with it, byte by byte.

use crate::sandbox::Sandbox;
use serde_json::Value;
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A running server.
pub struct BoardServer {
    child: Child,
    stdout: RefCell<BufReader<ChildStdout>>,
    /// The link that no browser has used yet, if it was read already.
    unused_link: RefCell<Option<String>>,
    stderr: Option<ChildStderr>,
    /// `127.0.0.1:PORT`
    pub host: String,
    pub metrics_token: Option<String>,
    /// Whether only this machine can reach the server.
    pub is_loopback: bool,
}

/// A response, read to its end.
#[derive(Clone, Debug)]
pub struct HttpReply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl HttpReply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

impl BoardServer {
    pub fn start(sandbox: &Sandbox) -> Self {
        Self::start_with(sandbox, &["--port", "0"])
    }

    pub fn start_with(sandbox: &Sandbox, args: &[&str]) -> Self {
        Self::start_under(sandbox, &[], args)
    }

    /// Starts the server as the argument of another program, which must keep its process id.
    pub fn start_under(sandbox: &Sandbox, program: &[&str], args: &[&str]) -> Self {
        // Without a terminal, so that no question waits for an answer.
        let mut command = sandbox.tool_command("setsid");
        command
            .args(program)
            .arg(env!("CARGO_BIN_EXE_ralph"))
            .args(["serve", "--json"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = child.stderr.take();
        let printed = read_json_line(&mut stdout);
        let url = printed["url"].as_str().unwrap();
        let host = url.trim_start_matches("http://").trim_end_matches('/').to_string();
        let text = |value: &Value| value.as_str().map(str::to_string);
        let metrics_token = text(&printed["metrics"]["token"]);
        let unused_link = RefCell::new(text(&printed["link"]));
        let is_loopback = printed["loopback"].as_bool().unwrap();
        let stdout = RefCell::new(stdout);
        Self { child, stdout, unused_link, stderr, host, metrics_token, is_loopback }
    }

    /// The path of the newest link. It stays unused until a browser enters with it.
    pub fn link_path(&self) -> String {
        let mut unused = self.unused_link.borrow_mut();
        let link = unused.get_or_insert_with(|| {
            let printed = read_json_line(&mut self.stdout.borrow_mut());
            printed["link"].as_str().unwrap().to_string()
        });
        link.strip_prefix(&format!("http://{}", self.host)).unwrap().to_string()
    }

    /// Exchanges the newest link for a session, as a browser with these headers does.
    pub fn enter(&self, headers: &[(&str, &str)]) -> HttpReply {
        let reply = self.request("GET", &self.link_path(), headers, "");
        self.unused_link.take();
        reply
    }

    /// Everything that was printed for the person until the end.
    pub fn stop(mut self) -> String {
        let ended = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status();
        assert!(ended.unwrap().success());
        self.wait();
        let mut text = String::new();
        self.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Opens the stream of updates of a page. Its lines follow the head of the response.
    pub fn open_updates(&self, cookie: &str, page: &str) -> impl Iterator<Item = String> + use<> {
        let mut stream = self.connect();
        let request = format!(
            "GET /events?page={page} HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n",
            self.host
        );
        stream.write_all(request.as_bytes()).unwrap();
        BufReader::new(stream).lines().map(Result::unwrap)
    }

    /// Sends bytes and reads until the server closes the connection.
    pub fn send_raw(&self, request: &[u8]) -> HttpReply {
        let mut stream = self.connect();
        // The server may answer and close before everything is sent.
        stream.write_all(request).ok();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        HttpReply { status, head: head.replace('\r', ""), body: body.to_string() }
    }

    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> HttpReply {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head.push_str(&format!("Host: {}\r\n", self.host));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        self.send_raw(format!("{head}\r\n{body}").as_bytes())
    }

    /// Exchanges the link for a cookie, as a browser does.
    pub fn cookie(&self) -> String {
        let reply = self.enter(&[]);
        assert_eq!((reply.status, reply.header("location")), (303, Some("/")), "{reply:?}");
        reply.header("set-cookie").unwrap().split(';').next().unwrap().to_string()
    }

    pub fn get(&self, cookie: &str, path: &str) -> HttpReply {
        self.request("GET", path, &[("Cookie", cookie)], "")
    }

    /// Sends a form of the page, with its own token, as a browser does.
    pub fn post_form(&self, cookie: &str, page: &str, action: &str, fields: &str) -> HttpReply {
        let shown = self.get(cookie, page);
        let token =
            form_token(&shown.body, action).unwrap_or_else(|| panic!("{action}: {shown:?}"));
        let origin = format!("http://{}", self.host);
        let headers = [
            ("Cookie", cookie),
            ("Origin", origin.as_str()),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        self.request("POST", action, &headers, &format!("token={token}&{fields}"))
    }
}

fn read_json_line(stdout: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

/// The token of the first form that posts to this address.
pub fn form_token(page: &str, action: &str) -> Option<String> {
    let form = page.split_once(&format!("action=\"{action}\""))?.1;
    let value = form.split_once("name=\"token\" value=\"")?.1;
    Some(value.split('"').next()?.to_string())
}

impl Drop for BoardServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
