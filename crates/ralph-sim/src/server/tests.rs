use super::*;
use crate::scenario;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc;

const SCENARIO: &str = r#"
    summary = "<summary>All of it.</summary>"
    [[step]]
    person = "Build it"
    [[step]]
    agent = "I begin."
    tools = [{ run = "make" }, { write = "out.txt", text = "é\n" }]
    usage = { input = 7, output = 3, cache_read = 2 }
    [[step]]
    agent = "Done."
    [[step]]
    error = { status = 529, type = "overloaded_error", message = "Overloaded" }
    [[step]]
    agent = "Again."
    [[step]]
    person = "And now?"
    [[step]]
    agent = "Now this."
    [[subagent]]
    prompt = "count the files"
    step = [{ agent = "Three." }]
"#;

fn start(pace: ScriptPace) -> (ModelServer, mpsc::Receiver<ModelEvent>) {
    let scenario = scenario::parse(SCENARIO, Path::new("s.toml")).unwrap();
    let (sender, receiver) = mpsc::channel();
    let options = ModelServerOptions {
        port: 0,
        project: PathBuf::from("/project"),
        pace,
        observer: Box::new(move |happened| drop(sender.send(happened))),
    };
    (serve(ModelScript::new(&scenario), options).unwrap(), receiver)
}

/// Sends bytes and returns the answer up to the end of the connection.
fn talk(server: &ModelServer, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    // The server may close the connection before it has read everything.
    stream.write_all(bytes).ok();
    stream.shutdown(Shutdown::Write).ok();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    String::from_utf8(text).unwrap().replace('\r', "")
}

fn post(path: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:1\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn ask(server: &ModelServer, headers: &str, text: &str) -> String {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": text}]});
    let answer = talk(server, &post("/v1/messages?beta=true", headers, &body.to_string()));
    let (_, body) = answer.split_once("\n\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let said = body["content"][0]["text"].as_str().or(body["error"]["message"].as_str());
    said.unwrap().to_owned()
}

#[test]
fn streams_a_turn_in_the_format_of_the_api() {
    let (server, _seen) = start(ScriptPace::Driven);
    let body = r#"{"model":"claude-x","stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"Build it"}]}]}"#;
    let answer = talk(&server, &post("/v1/messages?beta=true", "", body));
    insta::assert_snapshot!(answer);
}

#[test]
fn sends_whole_messages_and_marks_errors_as_not_retryable() {
    let (server, seen) = start(ScriptPace::Driven);
    let ask = |text: &str| {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": text}]});
        talk(&server, &post("/v1/messages", "", &body.to_string()))
    };
    let answers = [ask("a"), ask("b"), ask("c"), ask("c"), ask("d")];
    insta::assert_snapshot!(answers.join("\n--\n"), @r#"
    HTTP/1.1 200 OK
    content-type: application/json
    content-length: 502
    request-id: req_sim_000001

    {"content":[{"text":"I begin.","type":"text"},{"id":"toolu_sim_0001_00","input":{"command":"make","description":"Run a command"},"name":"Bash","type":"tool_use"},{"id":"toolu_sim_0001_01","input":{"content":"é\n","file_path":"/project/out.txt"},"name":"Write","type":"tool_use"}],"id":"msg_sim_000001","model":"m","role":"assistant","stop_reason":"tool_use","stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"input_tokens":7,"output_tokens":3}}
    --
    HTTP/1.1 200 OK
    content-type: application/json
    content-length: 268
    request-id: req_sim_000002

    {"content":[{"text":"Done.","type":"text"}],"id":"msg_sim_000002","model":"m","role":"assistant","stop_reason":"end_turn","stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":100,"output_tokens":20}}
    --
    HTTP/1.1 529 Overloaded
    content-type: application/json
    content-length: 75
    request-id: req_sim_000003
    x-should-retry: false

    {"error":{"message":"Overloaded","type":"overloaded_error"},"type":"error"}
    --
    HTTP/1.1 529 Overloaded
    content-type: application/json
    content-length: 75
    request-id: req_sim_000004
    x-should-retry: false

    {"error":{"message":"Overloaded","type":"overloaded_error"},"type":"error"}
    --
    HTTP/1.1 200 OK
    content-type: application/json
    content-length: 269
    request-id: req_sim_000005

    {"content":[{"text":"Again.","type":"text"}],"id":"msg_sim_000005","model":"m","role":"assistant","stop_reason":"end_turn","stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":100,"output_tokens":20}}
    "#);
    drop(server);
    let lines: Vec<_> = seen
        .iter()
        .map(|happened| match happened {
            ModelEvent::Requested(asked) => format!(
                "{} {:?} {:?} {}",
                asked.number, asked.origin, asked.attempt, asked.messages[0]["content"]
            ),
            ModelEvent::Answered(answered) => {
                format!("{} answered, received: {}", answered.number, answered.is_received)
            }
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    1 Main First "a"
    1 answered, received: true
    2 Main First "b"
    2 answered, received: true
    3 Main First "c"
    3 answered, received: true
    4 Main Retry "c"
    4 answered, received: true
    5 Main First "d"
    5 answered, received: true
    "#);
}

#[test]
fn each_conversation_has_its_own_turns() {
    let (server, _seen) = start(ScriptPace::Driven);
    let session = "x-claude-code-session-id: s\r\n";
    let agent = "x-claude-code-session-id: s\r\nx-claude-code-agent-id: a1\r\n";
    let summary = "Your task is to create a detailed summary of the conversation so far";
    let mut said = Vec::new();
    for (headers, text) in [
        // A person's prompt that equals a subagent's task is not a subagent if the client sends the headers.
        (session, "Please count the files"),
        (agent, "count the files"),
        (agent, "count the files again"),
        (agent, summary),
        ("", "count the files once more"),
        (session, "b"),
    ] {
        said.push(ask(&server, headers, text));
    }
    server.next_prompt();
    said.push(ask(&server, session, "And now?"));
    said.push(ask(&server, session, "And then?"));
    insta::assert_snapshot!(said.join("\n"), @"
    I begin.
    Three.
    (The scenario has no more turns.)
    <summary>All of it.</summary>
    (The scenario has no more turns.) (2)
    Done.
    Now this.
    (The scenario has no more turns.) (3)
    ");
    assert!(!server.has_turns());
}

#[test]
fn in_order_the_turns_of_the_next_prompt_follow() {
    let (server, _seen) = start(ScriptPace::InOrder);
    let said: Vec<_> = (0..6).map(|n| ask(&server, "", &format!("{n}"))).collect();
    insta::assert_snapshot!(said.join("\n"), @"
    I begin.
    Done.
    Overloaded
    Again.
    Now this.
    (The scenario has no more turns.)
    ");
}

#[test]
fn invalid_and_hostile_requests_are_answered_with_errors() {
    let (server, _seen) = start(ScriptPace::Driven);
    let long = "x".repeat(100_000);
    let deep = format!(r#"{{"messages":[{}"#, "[".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(101));
    let huge = "POST /v1/messages HTTP/1.1\r\ncontent-length: 67108865\r\n\r\n";
    let mut lines = Vec::new();
    for (what, bytes) in [
        ("no length", b"POST /v1/messages HTTP/1.1\r\n\r\n{}".to_vec()),
        ("half a head", b"POST /v1/mess".to_vec()),
        ("half a body", b"POST /v1/messages HTTP/1.1\r\ncontent-length: 9\r\n\r\n{".to_vec()),
        ("chunks", b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n".to_vec()),
        ("odd length", b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n".to_vec()),
        (
            "two lengths",
            b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}".to_vec(),
        ),
        ("huge body", huge.as_bytes().to_vec()),
        ("huge header", format!("GET / HTTP/1.1\r\nx: {long}\r\n\r\n").into_bytes()),
        ("endless line", long.clone().into_bytes()),
        ("many headers", many.into_bytes()),
        ("no HTTP", b"\x16\x03\x01\x00\xa5\x01\x00\x00".to_vec()),
        ("not JSON", post("/v1/messages", "", "hello")),
        ("no object", post("/v1/messages", "", "[1]")),
        ("no messages", post("/v1/messages", "", "{}")),
        ("odd messages", post("/v1/messages", "", r#"{"messages":{}}"#)),
        ("deep", post("/v1/messages", "", &deep)),
        ("no UTF-8", b"POST /v1/messages HTTP/1.1\r\ncontent-length: 2\r\n\r\n\xff\xfe".to_vec()),
        ("unknown path", post("/v1/complete", "", "{}")),
        ("other method", b"DELETE /v1/messages HTTP/1.1\r\ncontent-length: 0\r\n\r\n".to_vec()),
        ("path", b"GET /../../etc/passwd HTTP/1.1\r\n\r\n".to_vec()),
        ("count", post("/v1/messages/count_tokens", "", r#"{"messages":[]}"#)),
        ("models", b"GET /v1/models?limit=1 HTTP/1.1\r\n\r\n".to_vec()),
        ("head", b"HEAD / HTTP/1.1\r\n\r\n".to_vec()),
        ("nothing", Vec::new()),
    ] {
        let answer = talk(&server, &bytes);
        let first = answer.lines().next().unwrap_or_default();
        let body = answer.split_once("\n\n").map_or("", |(_, body)| body);
        lines.push(format!("{what}: {first} {body}"));
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    no length: HTTP/1.1 400 Bad Request {"error":{"message":"`content-length` is missing","type":"invalid_request_error"},"type":"error"}
    half a head: HTTP/1.1 400 Bad Request {"error":{"message":"incomplete request","type":"invalid_request_error"},"type":"error"}
    half a body: HTTP/1.1 400 Bad Request {"error":{"message":"incomplete request","type":"invalid_request_error"},"type":"error"}
    chunks: HTTP/1.1 400 Bad Request {"error":{"message":"`transfer-encoding` is not supported, use `content-length`","type":"invalid_request_error"},"type":"error"}
    odd length: HTTP/1.1 400 Bad Request {"error":{"message":"`content-length` is not a number","type":"invalid_request_error"},"type":"error"}
    two lengths: HTTP/1.1 400 Bad Request {"error":{"message":"conflicting `content-length` headers","type":"invalid_request_error"},"type":"error"}
    huge body: HTTP/1.1 413 Content Too Large {"error":{"message":"the request is larger than 64 MB","type":"request_too_large"},"type":"error"}
    huge header: HTTP/1.1 400 Bad Request {"error":{"message":"the request head is too large","type":"invalid_request_error"},"type":"error"}
    endless line: HTTP/1.1 400 Bad Request {"error":{"message":"the request head is too large","type":"invalid_request_error"},"type":"error"}
    many headers: HTTP/1.1 400 Bad Request {"error":{"message":"not an HTTP request: too many headers","type":"invalid_request_error"},"type":"error"}
    no HTTP: HTTP/1.1 400 Bad Request {"error":{"message":"not an HTTP request: invalid token","type":"invalid_request_error"},"type":"error"}
    not JSON: HTTP/1.1 400 Bad Request {"error":{"message":"the body is not a Messages API request: expected value at line 1 column 1","type":"invalid_request_error"},"type":"error"}
    no object: HTTP/1.1 400 Bad Request {"error":{"message":"the body is not a Messages API request: invalid length 5, expected struct MessagesRequestWire with 6 elements at line 1 column 3","type":"invalid_request_error"},"type":"error"}
    no messages: HTTP/1.1 400 Bad Request {"error":{"message":"the body is not a Messages API request: missing field `messages` at line 1 column 2","type":"invalid_request_error"},"type":"error"}
    odd messages: HTTP/1.1 400 Bad Request {"error":{"message":"the body is not a Messages API request: invalid type: map, expected a sequence at line 1 column 12","type":"invalid_request_error"},"type":"error"}
    deep: HTTP/1.1 400 Bad Request {"error":{"message":"the body is not a Messages API request: recursion limit exceeded at line 1 column 139","type":"invalid_request_error"},"type":"error"}
    no UTF-8: HTTP/1.1 400 Bad Request {"error":{"message":"the body is not a Messages API request: expected value at line 1 column 1","type":"invalid_request_error"},"type":"error"}
    unknown path: HTTP/1.1 404 Not Found {"error":{"message":"unknown path /v1/complete","type":"not_found_error"},"type":"error"}
    other method: HTTP/1.1 404 Not Found {"error":{"message":"unknown path /v1/messages","type":"not_found_error"},"type":"error"}
    path: HTTP/1.1 404 Not Found {"error":{"message":"unknown path /../../etc/passwd","type":"not_found_error"},"type":"error"}
    count: HTTP/1.1 200 OK {"input_tokens":4}
    models: HTTP/1.1 200 OK {"data":[],"first_id":null,"has_more":false,"last_id":null}
    head: HTTP/1.1 200 OK 
    nothing:
    "#);
    assert_eq!(ask(&server, "", "still there?"), "I begin.");
}

/// A web page must not consume a turn of the script.
#[test]
fn requests_from_browser_pages_are_refused() {
    let (server, _seen) = start(ScriptPace::Driven);
    let body = r#"{"messages":[]}"#;
    let mut lines = Vec::new();
    for headers in [
        "host: 127.0.0.1\r\norigin: https://evil.example\r\n",
        "host: localhost:80\r\nOrigin: null\r\n",
        "host: evil.example\r\n",
        "host: 127.0.0.1.evil.example:80\r\n",
        "host: localhost:80@evil.example\r\n",
        "host: 127.0.0.1\r\nhost: evil.example\r\n",
        "host: \r\n",
        "host: LocalHost:80\r\n",
        "host: 127.0.0.1\r\n",
        "",
    ] {
        let length = body.len();
        let request = format!(
            "POST /v1/messages HTTP/1.1\r\n{headers}content-length: {length}\r\n\r\n{body}"
        );
        let answer = talk(&server, request.as_bytes());
        lines.push(format!("{headers:?}: {}", answer.lines().next().unwrap_or_default()));
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    "host: 127.0.0.1\r\norigin: https://evil.example\r\n": HTTP/1.1 403 Forbidden
    "host: localhost:80\r\nOrigin: null\r\n": HTTP/1.1 403 Forbidden
    "host: evil.example\r\n": HTTP/1.1 403 Forbidden
    "host: 127.0.0.1.evil.example:80\r\n": HTTP/1.1 403 Forbidden
    "host: localhost:80@evil.example\r\n": HTTP/1.1 403 Forbidden
    "host: 127.0.0.1\r\nhost: evil.example\r\n": HTTP/1.1 403 Forbidden
    "host: \r\n": HTTP/1.1 403 Forbidden
    "host: LocalHost:80\r\n": HTTP/1.1 200 OK
    "host: 127.0.0.1\r\n": HTTP/1.1 200 OK
    "": HTTP/1.1 529 Overloaded
    "#);
    let page = talk(
        &server,
        b"OPTIONS /v1/messages HTTP/1.1\r\nhost: localhost\r\norigin: null\r\ncontent-length: 0\r\n\r\n",
    );
    insta::assert_snapshot!(page, @r#"
    HTTP/1.1 403 Forbidden
    content-type: application/json
    content-length: 167
    connection: close

    {"error":{"message":"requests from browser pages are refused: `Origin` is set, or `Host` is neither 127.0.0.1 nor localhost","type":"permission_error"},"type":"error"}
    "#);
}

/// HTTP/1.0 clients, and those that send `connection: close`, wait for the end of the connection.
#[test]
fn closes_the_connection_after_the_last_answer() {
    let (server, _seen) = start(ScriptPace::Driven);
    for head in [
        "GET / HTTP/1.0\r\n",
        "GET / HTTP/1.1\r\nconnection: close\r\n",
        "GET / HTTP/1.1\r\nconnection: TE, Close\r\n",
        "GET / HTTP/1.1\r\nconnection: te\r\nconnection: close\r\n",
    ] {
        // Kept open on this side, so that only the server can close it.
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(
            text.replace('\r', ""),
            "HTTP/1.1 200 OK\ncontent-type: application/json\ncontent-length: 32\nconnection: close\n\n\
             {\"id\":\"scenario\",\"type\":\"model\"}",
            "{head}"
        );
    }
    let body = r#"{"stream":true,"messages":[]}"#;
    let length = body.len();
    let request = format!("POST /v1/messages HTTP/1.0\r\ncontent-length: {length}\r\n\r\n{body}");
    let answer = talk(&server, request.as_bytes());
    let head: Vec<_> = answer.lines().take(7).collect();
    insta::assert_snapshot!(head.join("\n"), @"
    HTTP/1.1 200 OK
    content-type: text/event-stream; charset=utf-8
    cache-control: no-cache
    request-id: req_sim_000001
    connection: close

    event: message_start
    ");
}

#[test]
fn large_bodies_are_read_one_at_a_time() {
    let (server, _seen) = start(ScriptPace::Driven);
    let large =
        format!(r#"{{"messages":[],"x":"{}"}}"#, "x".repeat(large_body_slot::SMALL_BODY_BYTES));
    let request = post("/v1/messages", "expect: 100-continue\r\n", &large);
    let (head, rest) = request.split_at(request.len() - large.len());
    let mut first = TcpStream::connect(server.address()).unwrap();
    first.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let mut go_ahead = [0; 25];
    first.write_all(head).unwrap();
    first.read_exact(&mut go_ahead).unwrap();
    let mut second = TcpStream::connect(server.address()).unwrap();
    second.write_all(head).unwrap();
    second.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(second.read(&mut go_ahead).is_err(), "the first is not done");
    assert_eq!(ask(&server, "", "small"), "I begin.");
    first.write_all(rest).unwrap();
    second.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    second.read_exact(&mut go_ahead).unwrap();
    assert_eq!(&go_ahead, b"HTTP/1.1 100 Continue\r\n\r\n");
    // A request that is still being read does not delay the shutdown.
    drop(server);
}

#[test]
fn one_connection_serves_many_requests_and_malformed_messages() {
    let (server, _seen) = start(ScriptPace::Driven);
    let mut bytes = post(
        "/v1/messages",
        "",
        r#"{"messages":[1,null,{"role":"user","content":[7,{"content":{}}]}]}"#,
    );
    bytes.extend(post("/v1/messages", "expect: 100-continue\r\n", r#"{"messages":[]}"#));
    bytes.extend(b"GET / HTTP/1.1\r\nconnection: close\r\n\r\nGET / HTTP/1.1\r\n\r\n");
    let answer = talk(&server, &bytes);
    let statuses: Vec<_> = answer.lines().filter(|line| line.contains("HTTP/1.1")).collect();
    insta::assert_snapshot!(statuses.join("\n"), @r#"
    HTTP/1.1 200 OK
    {"content":[{"text":"I begin.","type":"text"},{"id":"toolu_sim_0001_00","input":{"command":"make","description":"Run a command"},"name":"Bash","type":"tool_use"},{"id":"toolu_sim_0001_01","input":{"content":"é\n","file_path":"/project/out.txt"},"name":"Write","type":"tool_use"}],"id":"msg_sim_000001","model":"","role":"assistant","stop_reason":"tool_use","stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"input_tokens":7,"output_tokens":3}}HTTP/1.1 100 Continue
    HTTP/1.1 200 OK
    {"content":[{"text":"Done.","type":"text"}],"id":"msg_sim_000002","model":"","role":"assistant","stop_reason":"end_turn","stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":100,"output_tokens":20}}HTTP/1.1 200 OK
    "#);
}

#[test]
fn excess_connections_are_closed_and_dropping_the_server_closes_all() {
    let (server, _seen) = start(ScriptPace::Driven);
    let address = server.address();
    let mut open: Vec<_> =
        (0..=MAX_CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut last = open.pop().unwrap();
    last.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    assert!(matches!(last.read(&mut [0]), Ok(0) | Err(_)));
    drop(server);
    for mut stream in open {
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    }
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_delayed_answer_is_abandoned_when_the_client_disconnects() {
    let text = "[[step]]\nperson = \"a\"\n[[step]]\nagent = \"late\"\ndelay_ms = 3600000";
    let scenario = scenario::parse(text, Path::new("s.toml")).unwrap();
    let (sender, seen) = mpsc::channel();
    let options = ModelServerOptions {
        port: 0,
        project: PathBuf::new(),
        pace: ScriptPace::Driven,
        observer: Box::new(move |happened| drop(sender.send(happened))),
    };
    let server = serve(ModelScript::new(&scenario), options).unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(&post("/v1/messages", "", r#"{"messages":[]}"#)).unwrap();
    assert!(matches!(seen.recv().unwrap(), ModelEvent::Requested(_)));
    drop(stream);
    let ModelEvent::Answered(answered) = seen.recv().unwrap() else { panic!("asked twice") };
    assert!(!answered.is_received);
}
