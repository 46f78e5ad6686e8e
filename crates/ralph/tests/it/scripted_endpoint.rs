//! An HTTP service on the loopback interface that answers with scripted responses, in order, and keeps the requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The bytes of a response.
pub struct ScriptedResponse(String);

impl ScriptedResponse {
    pub fn ok(body: &str) -> Self {
        Self::with_status(200, "", body)
    }

    /// `headers` are whole lines.
    pub fn error(status: u16, headers: &str) -> Self {
        Self::with_status(status, headers, r#"{"error":{"message":"busy"}}"#)
    }

    /// Breaks off before its end.
    pub fn cut(body: &str) -> Self {
        let Self(whole) = Self::ok(body);
        Self(whole[..whole.len() - 1].to_string())
    }

    fn with_status(status: u16, headers: &str, body: &str) -> Self {
        let length = body.len();
        Self(format!(
            "HTTP/1.1 {status} X\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        ))
    }
}

/// The body of an answer in Anthropic's format.
pub fn model_reply(text: &str) -> String {
    serde_json::json!({
        "model": "a-model",
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": text}],
        "usage": {"input_tokens": 10, "output_tokens": 2}
    })
    .to_string()
}

/// Serves until the test ends. A request beyond the script gets no answer.
pub struct ScriptedEndpoint {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl ScriptedEndpoint {
    pub fn serve(responses: Vec<ScriptedResponse>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&seen);
        // Ends with the last response, and otherwise with the process of the tests.
        std::thread::spawn(move || {
            for response in responses {
                let Ok((mut stream, _)) = listener.accept() else { return };
                let request = read_request(&stream);
                requests.lock().unwrap().push(request);
                stream.write_all(response.0.as_bytes()).ok();
            }
        });
        Self { port, seen }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

fn read_request(stream: &TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}
