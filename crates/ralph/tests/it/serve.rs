//! `ralph serve`: access, requests, actions and updates, over plain sockets.

use crate::conditions::APPROVAL_POLICY;
use crate::sandbox::{SESSION, Sandbox, eventually, is_tool_missing, without_proof, write_file};
use crate::serve_client::{BoardServer, HttpReply, form_token};
use insta::assert_snapshot;
use ralph_core::drive::{DriveSettings, LandingMode, RunWorktree};
use ralph_core::id::RunId;
use ralph_core::record::RunRecord;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, RunFiles};
use ralph_sys::clock::Deadline;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

const GATE: &str = "[[gate]]\nname = \"tests\"\nrun = [\"sh\", \"-c\", \"grep -q goodbye main.txt || { echo 'main.txt:1: no <b>goodbye</b>'; exit 1; }\"]\n";
const HOSTILE: &str = "<img src=x onerror=alert(1)> \"'&</title><script>alert(2)</script>";
const HOSTILE_FILE: &str = "<img src=x onerror=alert(4)>.txt";

/// A project with one run that was held once.
fn held_sandbox(goal: &str) -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    sandbox.write("main.txt", "hello\n");
    sandbox.write("ralph.toml", without_proof(GATE));
    sandbox.commit();
    sandbox.approve_policy();
    let run = sandbox.start_run([goal]);
    sandbox.write("main.txt", "hello there\n");
    let event = sandbox.stop_event(SESSION, "");
    sandbox.ralph_with_input(["hook", "claude"], event.as_bytes());
    (sandbox, run)
}

impl Sandbox {
    fn journal(&self, run: &str) -> String {
        fs::read_to_string(self.ralph_home("runs").join(run).join("journal.jsonl")).unwrap()
    }
}

#[test]
fn the_link_opens_a_session_and_every_response_has_the_same_headers() {
    let sandbox = Sandbox::new();
    let server = BoardServer::start(&sandbox);
    assert!(server.host.starts_with("127.0.0.1:"), "{}", server.host);
    let entered = server.enter(&[]);
    let secret = regex::Regex::new("ralph-[0-9]+=[0-9a-f]{64}").unwrap();
    let date = regex::Regex::new("date: .*").unwrap();
    let shown = |head: &str| {
        date.replace(&secret.replace(head, "ralph-PORT=SECRET"), "date: DATE").into_owned()
    };
    assert_snapshot!(shown(&entered.head), @r"
    HTTP/1.1 303 See Other
    set-cookie: ralph-PORT=SECRET; HttpOnly; SameSite=Strict; Path=/
    location: /
    content-security-policy: default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types ralph
    referrer-policy: no-referrer
    x-content-type-options: nosniff
    x-frame-options: DENY
    cache-control: no-store
    cross-origin-opener-policy: same-origin
    cross-origin-resource-policy: same-origin
    connection: close
    content-length: 0
    date: DATE
    ");
    // A report runs nothing at all.
    let run = sandbox.start_run(["Say goodbye"]);
    let hash = regex::Regex::new("sha256-[A-Za-z0-9+/]{43}=").unwrap();
    let length = regex::Regex::new("content-length: [0-9]+").unwrap();
    let report = server.get(&server.cookie(), &format!("/run/{run}/report"));
    let report = length.replace(&report.head, "content-length: BYTES").into_owned();
    assert_snapshot!(hash.replace(&shown(&report), "sha256-HASH"), @r"
    HTTP/1.1 200 OK
    content-type: text/html; charset=utf-8
    content-security-policy: default-src 'none'; style-src 'sha256-HASH'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'
    referrer-policy: no-referrer
    x-content-type-options: nosniff
    x-frame-options: DENY
    cache-control: no-store
    cross-origin-opener-policy: same-origin
    cross-origin-resource-policy: same-origin
    content-length: BYTES
    connection: close
    date: DATE
    ");
    // Every entry makes a link for one more browser.
    let (one, other) = (server.cookie(), server.cookie());
    assert_ne!(one, other);
    let visit = regex::Regex::new(
        r"^ralph_seen-\d+=0\.\d{13}; Max-Age=31536000; HttpOnly; SameSite=Strict; Path=/$",
    )
    .unwrap();
    for cookie in [&one, &other] {
        let board = server.get(cookie, "/");
        assert_eq!(board.status, 200);
        assert!(visit.is_match(board.header("set-cookie").unwrap()), "{board:?}");
    }
}

/// A link stays in the history of a browser, and `--open` shows one to every process: it opens one session, which
/// ends when a second browser presents the link.
#[test]
fn a_link_works_once_and_its_second_use_ends_the_session() {
    let sandbox = Sandbox::new();
    let server = BoardServer::start(&sandbox);
    let link = server.link_path();
    let mut rows = Vec::new();
    let mut show = |what: &str, reply: &HttpReply| {
        let title = reply.body.split_once("<h1>").and_then(|(_, rest)| rest.split_once("</h1>"));
        let shown = title.map_or("", |(title, _)| title);
        let has_cookie = reply.header("set-cookie").is_some_and(|cookie| cookie.contains("ralph-"));
        let cookie = if has_cookie { " with a cookie" } else { "" };
        rows.push(format!("{} {what}{cookie} {shown}", reply.status).trim_end().to_string());
    };
    show("a look at the head", &server.request("HEAD", &link, &[], ""));
    show("a prefetch", &server.request("GET", &link, &[("Sec-Purpose", "prefetch")], ""));
    let entered = server.enter(&[]);
    show("the first browser", &entered);
    let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap().to_string();
    show("a reload in it", &server.get(&cookie, &link));
    let other = server.cookie();
    // An open page must not outlive its session.
    let mut events = server.open_updates(&cookie, "/");
    events.by_ref().find(|line| line == "event: title").unwrap();
    show("the second browser", &server.request("GET", &link, &[], ""));
    sandbox.start_run(["Say goodbye"]);
    assert_eq!(events.find(|line| line == "event: patch"), None);
    show("the board of the first", &server.get(&cookie, "/"));
    show("a third browser", &server.get(&other, &link));
    show("the board of the third", &server.get(&other, "/"));
    let next = server.link_path();
    show("the newest link, in the third", &server.enter(&[("Cookie", &other)]));
    show("that link again", &server.request("GET", &next, &[], ""));
    show("the board of the third", &server.get(&other, "/"));
    assert_snapshot!(rows.join("\n"), @r"
    405 a look at the head
    405 a prefetch This request is not supported
    303 the first browser with a cookie
    303 a reload in it
    403 the second browser This link was used before
    403 the board of the first Open the link from your terminal
    403 a third browser This link is not valid
    200 the board of the third 1 run is working; nothing waits for you
    303 the newest link, in the third
    403 that link again This link was used before
    403 the board of the third Open the link from your terminal
    ");
    assert_snapshot!(server.stop(), @r"
    serving the board until Ctrl-C; the link is for you only
    warning: a used link was opened in another browser, so the session that it had opened has ended.
    If that was not you, another program reads your links. The newest link is still valid.
    warning: a used link was opened in another browser, so the session that it had opened has ended.
    If that was not you, another program reads your links. The newest link is still valid.
    ");
}

/// Runs that ended before the last visit are counted only. The board stays the same until ten minutes after it was last opened.
#[test]
fn the_board_shows_what_ended_since_the_last_visit() {
    let (sandbox, run) = held_sandbox("Say goodbye");
    assert_eq!(sandbox.ralph(["cancel", &run]).code, Some(0));
    let server = BoardServer::start(&sandbox);
    let cookie = server.cookie();
    let port = server.host.split_once(':').unwrap().1;
    let ended = regex::Regex::new("<h2 id=\"h-ended\">(.*?)</h2>").unwrap();
    let (tags, time) = (
        regex::Regex::new("<[^>]*>").unwrap(),
        regex::Regex::new(r"\d\d:\d\d|\d{4}-\d\d-\d\d").unwrap(),
    );
    let shown = |visit: &str| {
        let board = server.get(&format!("{cookie}; ralph_seen-{port}={visit}"), "/");
        let head = ended.captures(&board.body).map(|found| found[1].to_string());
        let head = tags.replace_all(head.as_deref().unwrap_or("none"), "").into_owned();
        let earlier = board.body.contains("Earlier: 1 run");
        let kept = board.header("set-cookie").unwrap().split_once('=').unwrap().1.to_string();
        let seen = kept.split_once('.').unwrap().0.to_string();
        format!(
            "{} | earlier: {earlier} | seen {}",
            time.replace_all(&head, "TIME"),
            if seen == "0" { "never" } else { "before" }
        )
    };
    let now_ms = ralph_sys::clock::now_ms();
    let minutes_ago = |count: u64| now_ms - count * 60 * 1000;
    let rows = [
        ("no cookie", shown("")),
        ("a visit of today", shown(&format!("{}.{}", minutes_ago(70), minutes_ago(11)))),
        ("the same visit", shown(&format!("{}.{}", minutes_ago(70), minutes_ago(9)))),
        ("after the run ended", shown(&format!("{now_ms}.{now_ms}"))),
        ("in the future", shown(&format!("{now_ms}.{}", now_ms + 60_000))),
        ("no time", shown("<script>.1")),
    ];
    let shown: Vec<String> = rows.iter().map(|(what, row)| format!("{what}: {row}")).collect();
    assert_snapshot!(shown.join("\n"), @r"
    no cookie: Ended | earlier: false | seen never
    a visit of today: Ended since TIME | earlier: false | seen before
    the same visit: Ended since TIME | earlier: false | seen before
    after the run ended: none | earlier: true | seen before
    in the future: Ended | earlier: false | seen never
    no time: Ended | earlier: false | seen never
    ");
    let board = server.get(&cookie, "/").body;
    assert!(board.contains("data-events=\"/events?page=/&amp;seen=0\""), "{board}");
}

/// A scraper reads the metrics with the token that `--metrics` printed, and nothing else.
#[test]
fn metrics_need_the_cookie_or_their_own_token() {
    let (sandbox, _) = held_sandbox("Say goodbye");
    let (plain, open) = (
        BoardServer::start(&sandbox),
        BoardServer::start_with(&sandbox, &["--port", "0", "--metrics"]),
    );
    assert_eq!(plain.metrics_token, None);
    let token = open.metrics_token.clone().unwrap();
    let bearer = format!("Bearer {token}");
    let link = open.link_path();
    let link_token = link.split_once("token=").unwrap().1;
    let get = |server: &BoardServer, path: &str, authorization: &str| {
        server.request("GET", path, &[("Authorization", authorization)], "").status
    };
    let rows = [
        ("the token", get(&open, "/metrics", &bearer)),
        ("another scheme's case", get(&open, "/metrics", &format!("bearer {token}"))),
        ("the cookie", open.get(&open.cookie(), "/metrics").status),
        ("the cookie without --metrics", plain.get(&plain.cookie(), "/metrics").status),
        ("nothing", open.request("GET", "/metrics", &[], "").status),
        ("a wrong token", get(&open, "/metrics", &format!("Bearer {}", "0".repeat(64)))),
        ("a part of it", get(&open, "/metrics", &format!("Bearer {}", &token[..63]))),
        ("an empty token", get(&open, "/metrics", "Bearer ")),
        ("the token of the link", get(&open, "/metrics", &format!("Bearer {link_token}"))),
        ("another scheme", get(&open, "/metrics", &format!("Basic {token}"))),
        (
            "the token twice",
            open.request(
                "GET",
                "/metrics",
                &[("Authorization", &bearer), ("Authorization", &bearer)],
                "",
            )
            .status,
        ),
        ("the token without --metrics", get(&plain, "/metrics", &bearer)),
        ("the token in the address", get(&open, &format!("/metrics?token={token}"), "")),
        ("the token for the board", get(&open, "/", &bearer)),
        ("the token for the API", get(&open, "/api/stats", &bearer)),
        (
            "the token as a link",
            open.request("GET", &format!("/enter?token={token}"), &[], "").status,
        ),
        (
            "the token from another page",
            open.request(
                "GET",
                "/metrics",
                &[("Authorization", &bearer), ("Sec-Fetch-Site", "cross-site")],
                "",
            )
            .status,
        ),
        (
            "the token for another host",
            open.request(
                "GET",
                "/metrics",
                &[("Authorization", &bearer), ("Host", "evil.example")],
                "",
            )
            .status,
        ),
        (
            "the token in a POST",
            open.request("POST", "/metrics", &[("Authorization", &bearer)], "").status,
        ),
    ];
    let shown: Vec<String> = rows.iter().map(|(what, status)| format!("{status} {what}")).collect();
    assert_snapshot!(shown.join("\n"), @r"
    200 the token
    200 another scheme's case
    200 the cookie
    200 the cookie without --metrics
    403 nothing
    403 a wrong token
    403 a part of it
    403 an empty token
    403 the token of the link
    403 another scheme
    403 the token twice
    403 the token without --metrics
    403 the token in the address
    403 the token for the board
    403 the token for the API
    403 the token as a link
    403 the token from another page
    421 the token for another host
    403 the token in a POST
    ");
    let reply = open.request("GET", "/metrics", &[("Authorization", &bearer)], "");
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4"));
    assert_eq!(reply.body, sandbox.ralph(["export", "prometheus"]).stdout);
}

/// The list of runs while there are too few to compare, with a goal that tries to be markup.
#[test]
fn stats_list_few_runs_and_are_the_same_as_json() {
    let (sandbox, run) = held_sandbox(HOSTILE);
    let server = BoardServer::start(&sandbox);
    let cookie = server.cookie();
    let page = server.get(&cookie, "/stats").body.replace(&run, "RUN");
    let main = page.split_once("<main id=\"main\">").unwrap().1.split_once("</main>").unwrap().0;
    let main = main.replace(&sandbox.project().display().to_string(), "DIR");
    assert_snapshot!(main.replace("><", ">\n<"), @r#"
    <div class="wrap">
    <div class="page-head">
    <div>
    <h1>No run has ended yet</h1>
    <p class="detail">
    <code>tests</code> holds agents most.</p>
    </div>
    <form class="filter" method="get" action="/stats">
    <label class="sr" for="project">Project</label>
    <select id="project" name="project">
    <option value="">All projects</option>
    <option value="DIR">DIR</option>
    </select>
    <label class="sr" for="since">Since, such as 30d</label>
    <input id="since" type="text" name="since" value="" placeholder="30d" autocomplete="off" maxlength="40">
    <button class="btn">Show</button>
    </form>
    </div>
    <section aria-labelledby="h-holds">
    <div class="head">
    <h2 id="h-holds">What holds agents</h2>
    <span class="quiet">1 held of 1 stop</span>
    </div>
    <table class="tbl cards">
    <thead>
    <tr>
    <th scope="col">Requirement</th>
    <th scope="col">Share of held stops</th>
    <th class="num" scope="col">
    <span class="sr">Per cent</span>
    </th>
    <th class="num" scope="col">Stops</th>
    <th class="num" scope="col">Stops until met</th>
    <th class="num" scope="col">Waived</th>
    <th class="num" scope="col">False holds</th>
    </tr>
    </thead>
    <tbody>
    <tr>
    <th scope="row">tests <span class="quiet">project</span>
    </th>
    <td class="full">
    <svg class="hbar" viewBox="0 0 200 10" preserveAspectRatio="none" aria-hidden="true">
    <rect class="rail" width="200" height="10">
    </rect>
    <rect class="fill" width="200" height="10">
    </rect>
    </svg>
    </td>
    <td class="num r">100 %</td>
    <td class="num" data-k="stops">1</td>
    <td class="num" data-k="until met">never</td>
    <td class="num wide">0</td>
    <td class="num" data-k="false">0</td>
    </tr>
    </tbody>
    </table>
    <p class="hint">A stop can be held by more than one requirement. A false hold was waived, or disputed and the work accepted.</p>
    <p class="hint">
    <code>ralph why RUN</code> shows how <code>tests</code> held an agent</p>
    </section>
    <section aria-labelledby="h-runs">
    <div class="head">
    <h2 id="h-runs">Runs</h2>
    </div>
    <table class="tbl cards">
    <thead>
    <tr>
    <th scope="col">Goal</th>
    <th class="num" scope="col">Run</th>
    <th scope="col">Status</th>
    <th class="num" scope="col">Held stops</th>
    <th class="num" scope="col">Cost</th>
    <th class="num" scope="col">Ended</th>
    </tr>
    </thead>
    <tbody>
    <tr>
    <th scope="row">&lt;img src=x onerror=alert(1)&gt; &quot;'&amp;&lt;/title&gt;&lt;script&gt;alert(2)&lt;/script&gt; <span class="quiet">project</span>
    </th>
    <td class="num r">
    <a class="mono" href="/run/RUN">RUN</a>
    </td>
    <td data-k="state">working</td>
    <td class="num" data-k="held">1 of 1</td>
    <td class="num" data-k="cost">unknown</td>
    <td class="num" data-k="ended">not ended</td>
    </tr>
    </tbody>
    </table>
    </section>
    </div>
    "#);
    let json = |text: &str| {
        let mut page: Value = serde_json::from_str(text).unwrap();
        page["now"] = 0.into();
        if page["scope"]["since"].is_string() {
            page["scope"]["since"] = 0.into();
        }
        page
    };
    let project = sandbox.project().display().to_string();
    for (query, args) in [
        (String::new(), vec!["--all"]),
        ("?project=&since=".to_string(), vec!["--all"]),
        ("?since=1d".to_string(), vec!["--all", "--since", "1d"]),
        ("?since=0".to_string(), vec!["--all", "--since", "0"]),
        (format!("?project={project}&since=1d"), vec!["--project", &project, "--since", "1d"]),
    ] {
        let api = json(&server.get(&cookie, &format!("/api/stats{query}")).body);
        let args = ["stats", "--json"].into_iter().chain(args);
        assert_eq!(api, json(&sandbox.ralph(args).stdout), "{query}");
    }
    let refused = [
        "since=soon",
        "since=-1d",
        "since=99999999999999999999d",
        "since=%3Cscript%3E",
        "project=/etc",
        "project=..%2f..%2fetc",
        "project=%3Cscript%3E&since=1d",
    ];
    let refused = refused.map(|query| {
        let reply = server.get(&cookie, &format!("/api/stats?{query}"));
        let page = server.get(&cookie, &format!("/stats?{query}")).body;
        let banner = page.split_once("<div class=\"banner st-exhausted\"").map(|(_, rest)| rest);
        let text = banner.and_then(|rest| rest.split_once("<div>")?.1.split_once("</div>"));
        format!("{query}: {} {} {}", reply.status, reply.body, text.unwrap_or_default().0)
    });
    assert_snapshot!(refused.join("\n"), @r#"
    since=soon: 400 {"v":1,"error":"not a duration; write `since=30d`"} Not a duration; write <code>since=30d</code>.
    since=-1d: 400 {"v":1,"error":"not a duration; write `since=30d`"} Not a duration; write <code>since=30d</code>.
    since=99999999999999999999d: 400 {"v":1,"error":"not a duration; write `since=30d`"} Not a duration; write <code>since=30d</code>.
    since=%3Cscript%3E: 400 {"v":1,"error":"not a duration; write `since=30d`"} Not a duration; write <code>since=30d</code>.
    project=/etc: 400 {"v":1,"error":"no single project with runs has this path or name; use the `project` of a row"} No single project with runs has this path or name; use the <code>project</code> of a row.
    project=..%2f..%2fetc: 400 {"v":1,"error":"no single project with runs has this path or name; use the `project` of a row"} No single project with runs has this path or name; use the <code>project</code> of a row.
    project=%3Cscript%3E&since=1d: 400 {"v":1,"error":"no single project with runs has this path or name; use the `project` of a row"} No single project with runs has this path or name; use the <code>project</code> of a row.
    "#);
}

/// A program gets JSON also for what is not there.
#[test]
fn the_api_answers_in_json() {
    let (sandbox, _) = held_sandbox("Say goodbye");
    let server = BoardServer::start(&sandbox);
    let cookie = server.cookie();
    let answers = ["/api/run/zzzz", "/api/nope"].map(|path| {
        let reply = server.get(&cookie, path);
        format!("{} {:?} {}", reply.status, reply.header("content-type"), reply.body)
    });
    assert_snapshot!(answers.join("\n"), @r#"
    404 Some("application/json") {"v":1,"error":"There is nothing here"}
    404 Some("application/json") {"v":1,"error":"There is nothing here"}
    "#);
    let mistake = server.get(&cookie, "/api/history?q=since:soon");
    assert_snapshot!(format!("{} {}", mistake.status, mistake.body), @r#"400 {"v":1,"error":"`since:soon` is not a filter; write `since:7d` or `since:2026-11-15`"}"#);
    // A form sends an empty field for the first page.
    let [first, empty] = ["/api/history?q=", "/api/history?q=&before="].map(|path| {
        let reply = server.get(&cookie, path);
        (reply.status, serde_json::from_str::<Value>(&reply.body).unwrap()["rows"].clone())
    });
    assert_eq!((first.0, &first), (200, &empty));
}

/// Without a server, `ralph watch --json` prints the same pages.
#[test]
fn the_pages_are_printed_as_json() {
    let (sandbox, run) = held_sandbox("Say goodbye");
    let server = BoardServer::start(&sandbox);
    let cookie = server.cookie();
    // Without the times. A row has more of them, so only its run is compared.
    let stable = |text: &str| {
        let mut page: Value = serde_json::from_str(text).unwrap();
        for key in ["now", "seen_at"] {
            page.as_object_mut().unwrap().remove(key);
        }
        let mut rows = vec![page.get_mut("row").map(Value::take)];
        for group in ["waiting", "working", "ended"] {
            let first = page.get_mut(group).and_then(|rows| rows.get_mut(0));
            rows.push(first.map(Value::take));
        }
        let ids = rows.into_iter().flatten().map(|row| row["run"].to_string()).collect::<Vec<_>>();
        page["rows"] = ids.concat().into();
        page
    };
    let board = stable(&server.get(&cookie, "/api/board").body);
    assert_eq!(stable(&sandbox.ralph(["watch", "--json"]).stdout), board);
    assert_eq!(board["rows"], format!("\"{run}\""));
    let page = stable(&server.get(&cookie, &format!("/api/run/{run}")).body);
    assert_eq!(stable(&sandbox.ralph(["watch", &run, "--json"]).stdout), page);
    let queues = stable(&server.get(&cookie, "/api/queues").body);
    assert_snapshot!(queues, @r#"{"queues":[],"rows":"","unreadable":0,"v":1}"#);
}

/// Accepting asks for a word at the terminal, as the command does, and the server has none here.
#[test]
fn work_without_proof_is_accepted_only_with_the_word() {
    let (sandbox, run) = crate::accept::run_to_review();
    let server = BoardServer::start(&sandbox);
    let cookie = server.cookie();
    let page = format!("/run/{run}");
    let reply = server.post_form(&cookie, &page, &format!("{page}/accept"), "why=read+it");
    let shown = server.get(&cookie, reply.header("location").unwrap()).body;
    let notice = shown.split_once("id=\"notice\"").unwrap().1.split_once("<div>").unwrap().1;
    assert_snapshot!(notice.split_once("</div>").unwrap().0.replace(&run, "RUN"), @"<p>run `RUN` (“make it work”) ended needs_review, so a person has to confirm this, but there is no terminal; nothing was changed</p><p>  hint: run `ralph accept RUN --why 'read it'` in the foreground of your own terminal</p>");
    assert_eq!(sandbox.run_status(&run).0, "needs_review");
    assert_eq!(form_token(&shown, &format!("{page}/limits")), None);
}

/// R-S8c: what is refused, with the whole table of reasons.
#[test]
fn requests_without_the_right_host_session_origin_form_or_id_are_refused() {
    let (sandbox, run) = held_sandbox("Say goodbye");
    let server = BoardServer::start(&sandbox);
    let cookie = server.cookie();
    let page = server.get(&cookie, &format!("/run/{run}")).body;
    let pause = format!("/run/{run}/pause");
    let token = form_token(&page, &pause).unwrap();
    let other_token = form_token(&page, &format!("/run/{run}/cancel")).unwrap();
    let own = format!("http://{}", server.host);
    let with = |headers: &[(&str, &str)], body: &str| {
        let form = ("Content-Type", "application/x-www-form-urlencoded");
        let all: Vec<_> = headers.iter().copied().chain([form, ("Cookie", &cookie)]).collect();
        server.request("POST", &pause, &all, body).status
    };
    let get =
        |headers: &[(&str, &str)], path: &str| server.request("GET", path, headers, "").status;
    let cookies = ("Cookie", cookie.as_str());
    let port = server.host.split_once(':').unwrap().1;
    let good = format!("token={token}");
    let rows = [
        ("another host", get(&[cookies, ("Host", "evil.example")], "/")),
        ("another port", get(&[cookies, ("Host", "127.0.0.1:1")], "/")),
        ("no port", get(&[cookies, ("Host", "127.0.0.1")], "/")),
        ("two hosts", get(&[cookies, ("Host", &server.host), ("Host", "evil.example")], "/")),
        ("host of a full address", get(&[cookies], "http://evil.example/")),
        ("localhost", get(&[cookies, ("Host", &format!("localhost:{port}"))], "/")),
        ("no cookie", get(&[], "/")),
        ("wrong cookie", get(&[("Cookie", &format!("ralph-{port}={}", "0".repeat(64)))], "/")),
        ("wrong link", get(&[], "/enter?token=0123")),
        ("no session for updates", get(&[], "/events?page=/")),
        ("no session for the API", get(&[], "/api/board")),
        (
            "another page loads it",
            get(&[cookies, ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")], "/"),
        ),
        (
            "another page links to it",
            get(
                &[
                    cookies,
                    ("Sec-Fetch-Site", "cross-site"),
                    ("Sec-Fetch-Mode", "navigate"),
                    ("Sec-Fetch-Dest", "document"),
                ],
                "/",
            ),
        ),
        (
            "another page frames it",
            get(
                &[
                    cookies,
                    ("Sec-Fetch-Site", "same-site"),
                    ("Sec-Fetch-Mode", "navigate"),
                    ("Sec-Fetch-Dest", "iframe"),
                ],
                "/",
            ),
        ),
        ("unknown run", get(&[cookies], "/run/zzzz")),
        ("no id", get(&[cookies], "/run/..%2f..%2fetc")),
        ("no id in updates", get(&[cookies], "/events?page=/run/../../etc")),
        ("the report of an unknown run", get(&[cookies], "/run/zzzz/report")),
        ("no id of a report", get(&[cookies], "/run/..%2f..%2fetc/report")),
        ("no session for a report", get(&[], &format!("/run/{run}/report"))),
        ("an action by GET", get(&[cookies], &pause)),
        ("another method", server.request("DELETE", "/", &[cookies], "").status),
        ("a method that does not exist", server.request("BREW", "/", &[cookies], "").status),
        ("an asset without a session", get(&[], "/style.css")),
        ("POST without an origin", with(&[], &good)),
        ("POST of another origin", with(&[("Origin", "http://evil.example")], &good)),
        ("POST of another port", with(&[("Origin", "http://127.0.0.1:1")], &good)),
        ("POST of another scheme", with(&[("Origin", &format!("https://{}", server.host))], &good)),
        ("POST of no origin", with(&[("Origin", "null")], &good)),
        ("POST without a token", with(&[("Origin", &own)], "text=x")),
        (
            "POST with the token of another form",
            with(&[("Origin", &own)], &format!("token={other_token}")),
        ),
        (
            "POST from a same-site page",
            with(&[("Origin", "null"), ("Sec-Fetch-Site", "same-site")], &good),
        ),
        (
            "POST of an unknown action",
            server
                .request(
                    "POST",
                    &format!("/run/{run}/remove"),
                    &[
                        cookies,
                        ("Origin", &own),
                        ("Content-Type", "application/x-www-form-urlencoded"),
                    ],
                    &good,
                )
                .status,
        ),
        (
            "POST of JSON",
            server
                .request(
                    "POST",
                    &pause,
                    &[cookies, ("Origin", &own), ("Content-Type", "application/json")],
                    "{}",
                )
                .status,
        ),
        (
            "POST of a large form",
            with(&[("Origin", &own)], &format!("{good}&text={}", "a".repeat(70_000))),
        ),
        ("a long head", get(&[cookies, ("X-Long", &"a".repeat(400_000))], "/")),
    ];
    let shown: Vec<String> = rows.iter().map(|(what, status)| format!("{status} {what}")).collect();
    assert_snapshot!(shown.join("\n"), @r"
    421 another host
    421 another port
    421 no port
    421 two hosts
    421 host of a full address
    200 localhost
    403 no cookie
    403 wrong cookie
    403 wrong link
    403 no session for updates
    403 no session for the API
    403 another page loads it
    200 another page links to it
    403 another page frames it
    404 unknown run
    404 no id
    404 no id in updates
    404 the report of an unknown run
    404 no id of a report
    403 no session for a report
    405 an action by GET
    405 another method
    405 a method that does not exist
    200 an asset without a session
    403 POST without an origin
    403 POST of another origin
    403 POST of another port
    403 POST of another scheme
    403 POST of no origin
    403 POST without a token
    403 POST with the token of another form
    403 POST from a same-site page
    403 POST of an unknown action
    415 POST of JSON
    413 POST of a large form
    431 a long head
    ");
    assert!(!sandbox.journal(&run).contains("paused"));
    // What a browser sends with `Referrer-Policy: no-referrer`.
    assert_eq!(with(&[("Origin", "null"), ("Sec-Fetch-Site", "same-origin")], &good), 303);
    assert!(sandbox.journal(&run).contains("paused"));
}

/// A driven run in a work tree of its own, whose branch tries to be markup.
fn start_hostile_branch_run(sandbox: &Sandbox) -> RunId {
    let run = RunId::parse("h4sk").unwrap();
    let project = sandbox.project().display().to_string();
    let mut record = RunRecord::new(run.clone(), project.clone(), ralph_sys::clock::now_ms());
    record.title = HOSTILE.to_string();
    let worktree = RunWorktree {
        path: project,
        branch: format!("{HOSTILE} branch"),
        from: "main".to_string(),
        into: Some(format!("{HOSTILE} target")),
        base: "4f1c2a9e7b".to_string(),
        then: LandingMode::Merge,
        checks_ms: None,
        draft: false,
    };
    let drive = DriveSettings { worktree: Some(worktree), ..DriveSettings::DEFAULT };
    record.drive = Some(Box::new(drive));
    let files = RunFiles { goal: HOSTILE.as_bytes(), lists: &[] };
    let home = RalphHome::new(sandbox.ralph_home(""));
    let deadline = Deadline::after(Duration::from_secs(30));
    assert!(store::create_run(&home, &record, &files, &deadline).unwrap());
    run
}

/// The record of a queue whose file is gone, so that its tasks are shown by their names.
fn write_hostile_queue(sandbox: &Sandbox, run: &RunId) {
    let task = format!("{HOSTILE} task");
    let lines = [
        json!({ "opened": { "source": format!("/{HOSTILE}.toml"), "project": format!("/{HOSTILE} project"), "arguments": [] } }),
        json!({ "started": { "task": task, "asks": "", "terms": "", "run": run } }),
        json!({ "ended": { "task": task, "how": "parked", "why": format!("{HOSTILE} reason") } }),
    ];
    let line = |mut line: Value| {
        line["v"] = 1.into();
        line["at_ms"] = 1.into();
        format!("{line}\n")
    };
    let path = sandbox.ralph_home("queues/q1234567/queue.jsonl");
    write_file(&path, lines.map(line).concat());
}

/// R-S6c: everything that a goal, an agent, a gate, a file, a branch or a queue brings is text.
#[test]
fn hostile_texts_are_escaped_on_every_page() {
    let (sandbox, run) = held_sandbox(HOSTILE);
    sandbox.write(HOSTILE_FILE, HOSTILE);
    assert!(sandbox.send_stop(SESSION, "").is_block());
    sandbox.ralph(["ask", "--run", &run, HOSTILE]);
    let driven = start_hostile_branch_run(&sandbox);
    write_hostile_queue(&sandbox, &driven);
    let server = BoardServer::start(&sandbox);
    let cookie = server.cookie();
    let diff = format!("/run/{run}/diff");
    let compared = format!("{diff}?from=0&to=2&path=%3Cimg%20src%3Dx%20onerror%3Dalert(4)%3E.txt");
    let shown = |what: &str| format!("{HOSTILE} {what}");
    // What must be on a page, so that its escape is tried.
    let pages = [
        ("/".to_string(), shown("branch")),
        (format!("/run/{run}"), HOSTILE.to_string()),
        (format!("/run/{run}/stops"), "<b>goodbye</b>".to_string()),
        (format!("/run/{driven}"), HOSTILE.to_string()),
        (format!("/run/{run}/report"), HOSTILE.to_string()),
        (format!("/run/{driven}/report"), HOSTILE.to_string()),
        (diff, HOSTILE_FILE.to_string()),
        (compared, HOSTILE.to_string()),
        (
            "/history?q=%3Cscript%3Ealert(3)%3C/script%3E".to_string(),
            "<script>alert(3)</script>".to_string(),
        ),
        ("/history".to_string(), String::new()),
        ("/stats".to_string(), HOSTILE.to_string()),
        (
            "/stats?since=%3Cscript%3Ealert(3)%3C/script%3E".to_string(),
            "<script>alert(3)</script>".to_string(),
        ),
        ("/stats?project=%3Cscript%3Ealert(3)%3C/script%3E".to_string(), String::new()),
        ("/queues".to_string(), shown("task")),
        ("/queues".to_string(), shown("reason")),
        ("/queues".to_string(), format!("{HOSTILE}.toml")),
        ("/states".to_string(), String::new()),
        ("/run/%3Cscript%3E".to_string(), String::new()),
    ];
    let attributes = regex::Regex::new(r"\s(on\w+|style)=").unwrap();
    let tags = regex::Regex::new("<[a-z][^>]*>").unwrap();
    let values = regex::Regex::new("\"[^\"]*\"").unwrap();
    for (path, text) in &pages {
        let reply = server.get(&cookie, path);
        for raw in ["<img", "<b>goodbye", "</title><script", "<script>"] {
            assert!(!reply.body.contains(raw), "{path}: {raw}\n{}", reply.body);
        }
        let scripts = usize::from(!path.ends_with("/report"));
        assert_eq!(reply.body.matches("<script").count(), scripts, "{path}");
        for tag in tags.find_iter(&reply.body) {
            let names = values.replace_all(tag.as_str(), "");
            assert!(!attributes.is_match(&names), "{path}: {}", tag.as_str());
        }
        assert!(reply.body.contains(&escape_text(text)), "{path}: no {text}\n{}", reply.body);
    }
}

/// The text as markup shows it.
fn escape_text(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    escaped.replace('"', "&quot;")
}

#[test]
fn actions_are_recorded_like_those_of_the_commands() {
    let (sandbox, run) = held_sandbox("Say goodbye");
    let sandbox = sandbox.env("USER", "ada");
    let server = BoardServer::start(&sandbox);
    let cookie = server.cookie();
    let page = format!("/run/{run}");
    let act = |action: &str, fields: &str| {
        let reply = server.post_form(&cookie, &page, &format!("{page}/{action}"), fields);
        assert_eq!(reply.status, 303, "{action}: {reply:?}");
        let shown = server.get(&cookie, reply.header("location").unwrap()).body;
        let notice = shown.split_once("id=\"notice\"").unwrap().1;
        let text = notice.split_once("<div>").unwrap().1.split_once("</div>").unwrap().0;
        format!("{action}: {}", text.replace("<p>", "").replace("</p>", "\n").trim_end())
    };
    let mut shown = vec![
        act("tell", "text=use+%3Cb%3E+for+it"),
        // An agent is held, and the server has no terminal to ask at.
        act("waive", "requirement=tests&until=2h&why=the+service+is+down"),
        act("waive", "requirement=test&until=2h&why=x"),
        act("waive", "requirement=tests&until=2h&why="),
        act("limits", "iterations=many&duration=&cost="),
        act("limits", "iterations=40&duration=&cost="),
        act("pause", ""),
        // A paused run can hold its agent again.
        act("limits", "iterations=40&duration=90m&cost=0"),
    ];
    let waive = ["waive", "tests", "--until", "2h", "--why", "the service is down", "--run", &run];
    assert_eq!(sandbox.ralph_at_terminal(waive).code, Some(0));
    shown.extend([act("require", "requirement=tests"), act("resume", ""), act("cancel", "")]);
    assert_snapshot!(shown.join("\n").replace(&run, "RUN"), @"
    tell: Sent; the agent gets it at its next stop
    waive: run `RUN` holds an agent, so a person has to confirm this, but there is no terminal; nothing was changed
      hint: run `ralph waive tests --until 2h --why 'the service is down' --run RUN` in the foreground of your own terminal
    waive: run `RUN` has no requirement `test`
      hint: did you mean `tests`?
    waive: no reason given
      hint: give it with `--why`; every report shows it
    limits: `many` is no value for `--max-iterations`
      hint: expected a whole number
    limits: run `RUN` holds an agent, so a person has to confirm this, but there is no terminal; nothing was changed
      hint: run `ralph limits RUN --max-iterations 40` in the foreground of your own terminal
    pause: Paused; the agent may stop freely until it is resumed
    limits: run `RUN` is paused and can hold an agent again, so a person has to confirm this, but there is no terminal; nothing was changed
      hint: run `ralph limits RUN --max-iterations 40 --max-duration 90m --max-cost 0` in the foreground of your own terminal
    require: tests is required again
    resume: Resumed; the agent is held at its next stop
    cancel: Cancelled; its session is free, and nothing was deleted
    ");
    let kinds: Vec<String> =
        server.get(&cookie, &format!("/api/run/{run}")).body.parse::<Value>().unwrap()["timeline"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| {
                format!("{}: {}", row["kind"].as_str().unwrap(), row["text"].as_str().unwrap())
            })
            .collect();
    let times = regex::Regex::new(r"until \S+( \S+:\d\d)?,").unwrap();
    assert_snapshot!(times.replace_all(&kinds.join("\n"), "until TIME,"), @r"
    started: Say goodbye
    held: tests: 1 finding
    answered: use <b> for it (by ada)
    person: paused, by ada
    person: waived tests until TIME, by ada: the service is down
    person: revoked the waiver of tests, by ada
    person: resumed, by ada
    ended: cancelled, by ada
    ");
}

/// What waits for an approval has a button that approves, with the word of the command, and no field for an answer.
#[test]
fn an_approval_is_no_question() {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", without_proof(APPROVAL_POLICY));
    sandbox.commit();
    sandbox.approve_policy();
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("design.md", "draw, then build\n");
    sandbox.send_stop(SESSION, "");
    let server = BoardServer::start(&sandbox);
    let cookie = server.cookie();
    let page = format!("/run/{run}");
    let shown = server.get(&cookie, &page).body;
    let question = shown.split_once("id=\"question\"").unwrap().1;
    let question = question.split_once("</section>").unwrap().0;
    let token = regex::Regex::new("name=\"token\" value=\"[^\"]*\"").unwrap();
    let question = token.replace_all(question, "TOKEN").replace(&run, "RUN");
    assert_snapshot!(question, @r#"><section class="box you ask" aria-labelledby="h-q"><h2 id="h-q">Waits for your approval</h2><blockquote>a person has to approve design: `ralph approve RUN design`</blockquote><form method="post" action="/run/RUN/approve"><input type="hidden" TOKEN><input type="hidden" name="name" value="design"><p class="row-btns"><button class="btn go">Approve design</button><span class="hint">Review the work first. Same as <code>ralph approve RUN design</code>: while a run holds an agent, ralph asks for a word at the terminal of <code>ralph serve</code></span></p></form>"#);
    let reply = server.post_form(&cookie, &page, &format!("{page}/approve"), "name=design");
    let shown = server.get(&cookie, reply.header("location").unwrap()).body;
    let notice = shown.split_once("id=\"notice\"").unwrap().1;
    let notice = notice.split_once("<div>").unwrap().1.split_once("</div>").unwrap().0;
    assert_snapshot!(notice.replace(&run, "RUN"), @"<p>run `RUN` holds an agent, so a person has to confirm this, but there is no terminal; nothing was changed</p><p>  hint: run `ralph approve RUN design` in the foreground of your own terminal</p>");
    let board = server.get(&cookie, "/").body;
    let actions = board.split_once("<p class=\"act\">").unwrap().1.split_once("</a>").unwrap().0;
    assert_snapshot!(actions.replace(&run, "RUN"), @r#"<a class="btn go" href="/run/RUN#question">Approve<span class="sr"> run RUN</span>"#);
}

/// Two checkpoints side by side, from the objects of git.
#[test]
fn checkpoints_are_compared_line_by_line() {
    let (sandbox, run) = held_sandbox("Say goodbye");
    let server = BoardServer::start(&sandbox);
    let cookie = server.cookie();
    let reply = server.get(&cookie, &format!("/run/{run}/diff?from=0&to=1&path=main.txt"));
    let rows = reply.body.split_once("<table class=\"diff\">").unwrap().1;
    assert_snapshot!(rows.split_once("</table>").unwrap().0, @r#"<caption><code>main.txt</code></caption><tbody><tr class=""><td class="ln">1</td><td class="sg del">−<span class="sr">removed</span></td><td class="del">hello</td><td class="ln right">1</td><td class="sg right add">+<span class="sr">added</span></td><td class="right add">hello there</td></tr></tbody>"#);
    let page = server.get(&cookie, &format!("/run/{run}")).body;
    let head = page.split_once("<h2 id=\"h-changes\">").unwrap().1.split_once("</div>").unwrap().0;
    assert_snapshot!(head.replace(&run, "RUN"), @r#"Changes</h2><span class="quiet"><a href="/run/RUN/diff?from=0&amp;to=1">1 file, +1 −1</a> since the start · 2 checkpoints</span>"#);
    for path in ["from=7", "to=x&from=9", "path=..%2f..%2fetc%2fpasswd"] {
        let reply = server.get(&cookie, &format!("/run/{run}/diff?{path}"));
        assert!(!reply.body.contains("root:"), "{path}");
        assert!(matches!(reply.status, 200 | 404), "{path}: {}", reply.status);
    }
}

/// A page that is open is updated within a second, without being asked.
#[test]
fn updates_are_sent_when_a_journal_changes() {
    let (sandbox, run) = held_sandbox("Say goodbye");
    let server = BoardServer::start(&sandbox);
    let cookie = server.cookie();
    let mut lines = server.open_updates(&cookie, "/");
    let mut next_patch = || {
        lines.by_ref().find(|line| line == "event: patch").unwrap();
        let patch: Vec<String> = lines
            .by_ref()
            .take_while(|line| line.starts_with("id: ") || line.starts_with("data: "))
            .collect();
        patch.join("\n")
    };
    let first = next_patch();
    assert!(first.contains("id=\"page-head\"") && first.contains("id=\"lists\""), "{first}");
    assert_eq!(sandbox.ralph(["pause", &run]).code, Some(0));
    let second = next_patch();
    assert!(second.contains("st-paused"), "{second}");
    assert_eq!(sandbox.ralph(["resume", &run]).code, Some(0));
    // Only the row changes now.
    let third = next_patch();
    assert!(third.contains("st-working"), "{third}");
}

/// A browser that was away sends the id of the last event. What it missed is not kept: it gets the whole page, as it is now.
#[test]
fn a_new_connection_gets_the_whole_page() {
    let (sandbox, run) = held_sandbox("Say goodbye");
    let server = BoardServer::start(&sandbox);
    let cookie = server.cookie();
    let first_message = |page: &str, last_event: &str| {
        let mut stream = server.connect();
        let request = format!(
            "GET /events?page={page} HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\nLast-Event-ID: {last_event}\r\n\r\n",
            server.host
        );
        stream.write_all(request.as_bytes()).unwrap();
        let lines = BufReader::new(stream).lines().map(Result::unwrap);
        let message = lines.skip_while(|line| line != "event: patch");
        message.take_while(|line| line != "event: title").collect::<Vec<_>>().join("\n")
    };
    let page = format!("/run/{run}");
    let before = first_message(&page, "");
    assert!(before.contains("st-working"), "{before}");
    assert_eq!(sandbox.ralph(["pause", &run]).code, Some(0));
    let id = regex::Regex::new("id: ([0-9]+)").unwrap().captures(&before).unwrap()[1].to_string();
    let ids = |message: &str| -> Vec<String> {
        let region =
            regex::Regex::new(r#"<(?:section|div|header|dl)[^>]* id="([a-z-]+)""#).unwrap();
        region.captures_iter(message).map(|found| found[1].to_string()).collect()
    };
    for last_event in [id.as_str(), "18446744073709551615", "x"] {
        let after = first_message(&page, last_event);
        assert!(after.contains("st-paused"), "{after}");
        for region in ["gates", "stops", "requirements"] {
            assert!(ids(&after).iter().any(|id| id == region), "{region}: {after}");
        }
    }
    let queues = first_message("/queues", "7");
    assert!(queues.contains("id=\"queues-head\"") && queues.contains("id=\"queues\""), "{queues}");
}

#[test]
fn clients_that_stall_or_speak_nonsense_do_not_stop_others() {
    let sandbox = Sandbox::new();
    let server = BoardServer::start(&sandbox);
    let stalled: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"GET / HTTP/1.1\r\nHost:").unwrap();
            stream
        })
        .collect();
    assert_eq!(
        server.send_raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n").status,
        400
    );
    assert_eq!(server.get(&server.cookie(), "/").status, 200);
    drop(stalled);
}

/// Sends a request on a connection that stays open, and reads the response. Then the server has accepted the connection.
fn ask_on_open_connection(server: &BoardServer, mut stream: &TcpStream) {
    let request = format!("GET /favicon.svg HTTP/1.1\r\nHost: {}\r\n\r\n", server.host);
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = BufReader::new(stream);
    let head = response.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty());
    let head: Vec<String> = head.collect();
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    response.read_exact(&mut body).unwrap();
    assert_eq!(head[0], "HTTP/1.1 200 OK");
}

/// Connections that ask for nothing make room for one that does, the oldest first.
#[test]
fn idle_connections_do_not_keep_a_browser_out() {
    let sandbox = Sandbox::new();
    let server = BoardServer::start(&sandbox);
    let cookie = server.cookie();
    // A busy system may queue connections for the server in another order than they were made in. An answer on the
    // oldest one before the others are made, and on the newest one after that, fixes which of them these are.
    let mut oldest = server.connect();
    ask_on_open_connection(&server, &oldest);
    oldest.write_all(b"GET / HTTP/1.1\r\nHost:").unwrap();
    let others: Vec<_> = (0..62).map(|_| server.connect()).collect();
    let mut newest = server.connect();
    ask_on_open_connection(&server, &newest);
    assert_eq!(server.get(&cookie, "/").status, 200);
    // Without that, all of them would be closed after the time for a head, and the browser would have waited as long.
    // A connection is reset instead of closed if its server had not yet read everything.
    let closed = match oldest.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    assert!(closed);
    newest.set_nonblocking(true).unwrap();
    let open = newest.read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(open, Err(std::io::ErrorKind::WouldBlock));
    drop(others);
}

#[test]
fn it_ends_at_a_signal_although_a_page_is_open() {
    let sandbox = Sandbox::new();
    let mut server = BoardServer::start(&sandbox);
    let cookie = server.cookie();
    let mut stream = server.connect();
    let request =
        format!("GET /events?page=/ HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n", server.host);
    stream.write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 200 OK\r\n");
    let ended = Command::new("kill").args(["-TERM", &server.pid().to_string()]).status().unwrap();
    assert!(ended.success());
    assert_eq!(server.wait(), Some(0));
}

/// With nothing to show, nothing happens: not without a page, and not while one is open, until its times are made anew.
#[test]
fn an_idle_server_makes_no_system_calls() {
    if is_tool_missing("strace") {
        return;
    }
    let (sandbox, run) = held_sandbox("Say goodbye");
    let trace = sandbox.root().join("trace");
    let path = trace.display().to_string();
    // The tracer is a grandchild, so that the process id is that of the server.
    let tracer =
        ["strace", "-D", "-f", "-qq", "-s", "16", "-e", "signal=none", "-o", path.as_str()];
    let server = BoardServer::start_under(&sandbox, &tracer, &["--port", "0"]);
    let cookie = server.cookie();
    // A server that wakes up by itself never lets ten commands pass without a system call.
    let read = || fs::read_to_string(&trace).unwrap();
    let wait_for_rest = || {
        eventually(|| {
            let before = read();
            (0..10).for_each(|_| drop(sandbox.ralph(["why", &run])));
            (read() == before).then_some(())
        });
    };
    wait_for_rest();
    let quiet = read().len();
    let mut updates = server.open_updates(&cookie, &format!("/run/{run}"));
    updates.find(|line| line == "event: patch").unwrap();
    wait_for_rest();
    assert!(read().len() > quiet, "the trace ends before the page was opened");
}

/// Listening on another address is allowed, with a warning if other machines can reach it.
#[test]
fn another_address_is_a_host_of_its_own_and_warns_if_others_reach_it() {
    let sandbox = Sandbox::new();
    let rows = ["127.0.0.1", "127.0.0.2", "0.0.0.0"].map(|address| {
        let server = BoardServer::start_with(&sandbox, &["--port", "0", "--bind", address]);
        let (ip, port) = server.host.split_once(':').unwrap();
        let (ip, port) = (ip.to_string(), port.to_string());
        let cookie = server.cookie();
        let status = |host: &str| {
            let host = format!("{host}:{port}");
            server.request("GET", "/", &[("Cookie", &cookie), ("Host", &host)], "").status
        };
        let hosts = ["127.0.0.1", "localhost", "127.0.0.2", "0.0.0.0", "evil.example"];
        let hosts = hosts.map(|host| format!("{} {host}", status(host))).join(", ");
        let is_loopback = server.is_loopback;
        let printed = server.stop().replace(&port, "PORT");
        format!("{address} is served as {ip}, loopback: {is_loopback}\n{hosts}\n{printed}")
    });
    assert_snapshot!(rows.join("\n"), @"
    127.0.0.1 is served as 127.0.0.1, loopback: true
    200 127.0.0.1, 200 localhost, 421 127.0.0.2, 421 0.0.0.0, 421 evil.example
    serving the board until Ctrl-C; the link is for you only

    127.0.0.2 is served as 127.0.0.2, loopback: true
    200 127.0.0.1, 200 localhost, 200 127.0.0.2, 421 0.0.0.0, 421 evil.example
    serving the board until Ctrl-C; the link is for you only

    0.0.0.0 is served as 127.0.0.1, loopback: false
    200 127.0.0.1, 200 localhost, 421 127.0.0.2, 421 0.0.0.0, 421 evil.example
    warning: other machines can reach port PORT of this machine, at its own address, and nothing is encrypted. Anyone with the link, also from the network traffic,
    can read every goal, question, finding and diff, and answer, approve, pause, resume, cancel, waive and change limits.
    the link is for a browser on this machine; elsewhere, write the address of this machine in place of the one in it
    serving the board until Ctrl-C; the link is for you only
    ");
}

#[test]
fn an_agent_cannot_serve_the_board() {
    let sandbox = Sandbox::new().env("CLAUDECODE", "1");
    let refused = sandbox.ralph(["serve", "--port", "0"]);
    assert_snapshot!(refused, @r"
    exit 1
    --- stderr
    error: an agent may not serve the board
      hint: ask a person to do this in their own terminal
    ");
}

#[test]
fn a_taken_port_is_an_error_and_the_usual_one_is_replaced() {
    let sandbox = Sandbox::new();
    let server = BoardServer::start(&sandbox);
    let port = server.host.split_once(':').unwrap().1;
    let refused = sandbox.ralph(["serve", "--port", port]).to_string();
    assert_snapshot!(refused.replace(port, "PORT"), @r"
    exit 1
    --- stderr
    error: cannot serve the board
      caused by: cannot listen on 127.0.0.1:PORT
      caused by: Address already in use (os error 98)
      hint: another program uses this port, perhaps another `ralph serve`; choose another one, or omit `--port` to use any free port
    ");
    let (one, other) =
        (BoardServer::start_with(&sandbox, &[]), BoardServer::start_with(&sandbox, &[]));
    assert_ne!(one.host, other.host);
    let host = other.host.clone();
    assert_snapshot!(other.stop().replace(&host, "HOST"), @r"
    port 7391 is not free, so the board is at http://HOST/; `--port N` chooses a port
    serving the board until Ctrl-C; the link is for you only
    ");
}
