//! Slow calls, over a connection in memory: progress, cancellation, and too many of them.

use super::*;
use rmcp::ClientHandler;
use rmcp::model::{CallToolRequest, ClientRequest};
use rmcp::service::{NotificationContext, PeerRequestOptions, RoleClient, RunningService};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

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
            | ToolRequest::Recall { .. } => Ok("fast".to_string()),
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
    tokio::spawn(async move { server.serve(far).await.unwrap().waiting().await });
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
        for _ in 0..MAX_CALLS {
            let options = PeerRequestOptions::no_options();
            slow.push(client.send_cancellable_request(call("verify"), options).await.unwrap());
        }
        let refused = text_of(&client, "status").await;
        assert_eq!(
            refused,
            "too many calls are under way: wait for their results, then call again"
        );
        for handle in slow {
            go_on.send(()).unwrap();
            handle.await_response().await.unwrap();
        }
        let long = text_of(&client, "why").await;
        assert_eq!(long.chars().filter(|char| *char == 'é').count(), MAX_ANSWER_CHARS - 1);
        assert!(long.ends_with("use the command line)"), "{}", &long[long.len() - 100..]);
    });
}
