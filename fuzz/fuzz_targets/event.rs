//! Hook events: no input of a host becomes a path or a control sequence, and exit code 2 is used only to block.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_core::event::{Event, Occasion};
use ralph_core::id::SessionId;
use ralph_core::status::Status;
use ralph_core::text;
use ralph_core::typed;
use ralph_core::verdict::{Bell, Verdict};
use ralph_host::claude::status_line;
use ralph_host::{Host, Style};
use serde_json::Value;

const STYLES: [Style; 3] = [Style::Exit2, Style::Context, Style::Json];
const CONTEXT_LIMIT: usize = 10_000;

fuzz_target!(|data: &[u8]| {
    match Host::Claude.parse(data) {
        Ok(Event::Stop(stop)) => {
            is_plain(stop.session.as_ref());
            assert!(stop.pending.len() <= 200);
            for pending in &stop.pending {
                is_one_line(&pending.what, 120);
            }
            if let Some(trouble) = &stop.trouble {
                is_one_line(trouble.name(), 60);
            }
        }
        Ok(Event::SubagentStop(stop)) => is_plain(stop.session.as_ref()),
        Ok(Event::StopFailure(failure)) => {
            is_plain(failure.session.as_ref());
            is_one_line(failure.class.name(), 60);
        }
        Ok(Event::Prompt(prompt)) => {
            is_plain(prompt.session.as_ref());
            if let Some(Err(mistake)) = typed::parse(&prompt.text) {
                is_one_line(&mistake.what, 200);
            }
        }
        Ok(Event::SessionStart(start)) => is_plain(start.session.as_ref()),
        Ok(Event::SessionEnd(end)) => {
            is_plain(end.session.as_ref());
            is_one_line(&end.reason, 60);
        }
        Ok(Event::Compaction(compaction)) => is_plain(compaction.session.as_ref()),
        Ok(Event::ToolCall(call)) => is_plain(call.session.as_ref()),
        Ok(Event::ToolDone(done)) => is_plain(done.session.as_ref()),
        Ok(Event::Task(task)) => is_plain(task.session.as_ref()),
        Ok(Event::Idle(idle)) => is_plain(idle.session.as_ref()),
        Ok(Event::Noted(noted)) => is_plain(noted.session.as_ref()),
        Ok(Event::Unknown) => {}
        Err(malformed) => is_one_line(&malformed.why, 120),
    }
    if let Some(glance) = status_line::parse(data) {
        is_plain(Some(&glance.session));
    }
    let said = String::from_utf8_lossy(data).into_owned();
    for style in STYLES {
        allows(style, &said);
        blocks(style, &said);
    }
});

fn is_plain(session: Option<&SessionId>) {
    if let Some(session) = session {
        let id = session.as_str();
        assert!(!id.is_empty() && id.len() <= 128);
        assert!(!id.contains(['/', '\\', '.', '\0']));
        assert_eq!(SessionId::parse(id).as_ref(), Some(session));
    }
}

fn is_one_line(text: &str, most: usize) {
    assert!(text.chars().count() <= most, "{text:?}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

fn allows(style: Style, said: &str) {
    let reply = Host::Claude.render(style, Occasion::Stop, &Verdict::Allow);
    assert!(reply.stdout.is_empty() && reply.stderr.is_empty() && reply.exit == 0);
    let notice = said.to_owned();
    let status = Status::Verified;
    for verdict in
        [Verdict::AllowNoting(notice.clone()), Verdict::End { status, notice, bell: Bell::Rings }]
    {
        let reply = Host::Claude.render(style, Occasion::Stop, &verdict);
        assert!(reply.stderr.is_empty() && reply.exit == 0);
        let object: Value = serde_json::from_slice(&reply.stdout).unwrap();
        assert_eq!(object["systemMessage"], said);
        // An end also rings the terminal bell.
        let keys = if matches!(verdict, Verdict::End { .. }) { 2 } else { 1 };
        assert_eq!(object.as_object().unwrap().len(), keys);
    }
}

fn blocks(style: Style, said: &str) {
    let reply =
        Host::Claude.render(style, Occasion::Stop, &Verdict::Block { reason: said.to_owned() });
    let object: Value = serde_json::from_slice(&reply.stdout).unwrap();
    match style {
        Style::Exit2 => {
            let line = format!("{}\n", said.trim_end());
            assert_eq!((reply.exit, &*reply.stderr), (2, line.as_bytes()));
            assert_eq!(object, serde_json::json!({}));
        }
        Style::Json => {
            assert_eq!((reply.exit, &*reply.stderr), (0, &b""[..]));
            assert_eq!(object, serde_json::json!({ "decision": "block", "reason": said }));
        }
        Style::Context => {
            assert_eq!((reply.exit, &*reply.stderr), (0, &b""[..]));
            let context = &object["hookSpecificOutput"]["additionalContext"];
            assert_eq!(*context, text::cut(said, CONTEXT_LIMIT));
        }
    }
}
