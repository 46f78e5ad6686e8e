//! Slow calls, over a connection in memory: progress, cancellation, and too many of them.

use super::*;
use crate::bounded_transport::MAX_UNSENT;
use rmcp::ClientHandler;
use rmcp::model::{CallToolRequest, ClientRequest};
use rmcp::service::{NotificationContext, PeerRequestOptions, RoleClient, RunningService};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// Answers `verify` once something is sent, everything else at once.
struct SlowTools {
    go_on: Mutex<Receiver<()>>,
}

impl RunTools for SlowTools {
    fn answer(&self, request: &ToolRequest) -> Result<String, String> {
        match request {
            ToolRequest::Verify { .. } => {
                let go_on = self.go_on.lock().unwrap();
                go_on.recv().map(|()| "done".to_string()).map_err(|_| "gone".to_string())
            }
            ToolRequest::Why { .. } => Ok("é".repeat(MAX_ANSWER_CHARS * 2)),
            ToolRequest::Contract { .. }
            | ToolRequest::Status { .. }
            | ToolRequest::Ask { .. }
            | ToolRequest::Dispute { .. }
            | ToolRequest::Recall { .. }
            | ToolRequest::Memory => Ok("fast".to_string()),
        }
    }
}

#[derive(Clone, Default)]
struct ProgressRecorder {
    messages: Arc<Mutex<Vec<String>>>,
    seen: Arc<tokio::sync::Notify>,
}

impl ClientHandler for ProgressRecorder {
    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.messages.lock().unwrap().extend(progress.message);
        self.seen.notify_one();
    }
}

type TestClient = RunningService<RoleClient, ProgressRecorder>;

async fn connect() -> (TestClient, ProgressRecorder, Sender<()>) {
    let (sender, go_on) = channel();
    let (near, far) = tokio::io::duplex(64 * 1024);
    let server = McpServer::new("1", SlowTools { go_on: Mutex::new(go_on) });
    let (input, output) = tokio::io::split(far);
    let transport = bounded_transport(input, output);
    tokio::spawn(async move { server.serve(transport).await.unwrap().waiting().await });
    let recorder = ProgressRecorder::default();
    (recorder.clone().serve(near).await.unwrap(), recorder, sender)
}

fn run_test(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test);
    runtime.shutdown_background();
}

fn call(name: &'static str) -> ClientRequest {
    ClientRequest::CallToolRequest(CallToolRequest::new(CallToolRequestParams::new(name)))
}

async fn text_of(client: &TestClient, name: &'static str) -> String {
    let answer = client.call_tool(CallToolRequestParams::new(name)).await.unwrap();
    serde_json::to_value(answer).unwrap()["content"][0]["text"].as_str().unwrap().to_string()
}

#[test]
fn a_slow_call_reports_progress_and_can_be_cancelled() {
    run_test(async {
        let (client, recorder, go_on) = connect().await;
        let options = PeerRequestOptions::no_options;
        let slow = client.send_cancellable_request(call("verify"), options()).await.unwrap();
        recorder.seen.notified().await;
        assert_eq!(recorder.messages.lock().unwrap().as_slice(), ["verify: 2 s"]);
        assert_eq!(text_of(&client, "status").await, "fast");
        slow.cancel(None).await.unwrap();
        // The cancelled check still takes the first word.
        go_on.send(()).unwrap();
        let next = client.send_cancellable_request(call("verify"), options()).await.unwrap();
        go_on.send(()).unwrap();
        let answer = serde_json::to_value(next.await_response().await.unwrap()).unwrap();
        assert_eq!(answer["content"][0]["text"], "done");
    });
}

#[test]
fn too_many_calls_are_refused_and_long_answers_are_cut() {
    run_test(async {
        let (client, _recorder, go_on) = connect().await;
        let mut slow = Vec::new();
        for _ in 0..MAX_VERIFY_CALLS {
            let options = PeerRequestOptions::no_options();
            slow.push(client.send_cancellable_request(call("verify"), options).await.unwrap());
        }
        let refused = text_of(&client, "verify").await;
        assert_eq!(
            refused,
            "too many calls are under way: wait for their results, then call again"
        );
        assert_eq!(text_of(&client, "status").await, "fast");
        // Any of them may take any word.
        for _ in &slow {
            go_on.send(()).unwrap();
        }
        for handle in slow {
            handle.await_response().await.unwrap();
        }
        let long = text_of(&client, "why").await;
        assert_eq!(long.chars().filter(|char| *char == 'é').count(), MAX_ANSWER_CHARS - 1);
        assert!(long.ends_with("use the command line)"), "{}", &long[long.len() - 100..]);
    });
}

/// Long lines, so that few of them fit into buffers.
fn list_request(number: usize) -> String {
    let id = format!("{number:01000}");
    format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"tools/list\"}}\n")
}

#[test]
fn requests_of_a_client_that_reads_no_answer_are_left_unread() {
    const FLOOD: usize = 1_000;
    /// The buffers of the connection and of the reader, and the lines at their ends.
    const BUFFERED: usize = 12;
    run_test(async {
        let (_go_on, receiver) = channel();
        let (near, far) = tokio::io::duplex(1024);
        let server = McpServer::new("1", SlowTools { go_on: Mutex::new(receiver) });
        let (input, output) = tokio::io::split(far);
        let transport = bounded_transport(input, output);
        tokio::spawn(async move { server.serve(transport).await.unwrap().waiting().await });
        let (reader, mut writer) = tokio::io::split(near);
        let mut lines = BufReader::new(reader).lines();
        let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"flood","version":"1"}}}"#;
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        writer.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
        lines.next_line().await.unwrap().unwrap();
        writer.write_all(format!("{ready}\n").as_bytes()).await.unwrap();

        let written = Arc::new(Mutex::new(0));
        let count = Arc::clone(&written);
        tokio::spawn(async move {
            for number in 0..FLOOD {
                writer.write_all(list_request(number).as_bytes()).await.unwrap();
                *count.lock().unwrap() += 1;
            }
            writer
        });
        // All tasks share this thread: each gets a turn per iteration, many more than it can use.
        for _ in 0..100 * FLOOD {
            tokio::task::yield_now().await;
        }
        let accepted = *written.lock().unwrap();
        assert!(accepted >= MAX_UNSENT, "{accepted}");
        assert!(accepted <= MAX_UNSENT + BUFFERED, "{accepted}");

        // Once the client reads, every request is answered.
        for _ in 0..FLOOD {
            assert!(lines.next_line().await.unwrap().unwrap().contains("inputSchema"));
        }
    });
}
