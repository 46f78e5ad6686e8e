//! Hook events: no input of a host becomes a path or a control sequence, and exit code 2 is used only to block.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_core::event::{HookEvent, ReplyOccasion};
use ralph_core::id::SessionId;
use ralph_core::slash_command;
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_core::verdict::Verdict;
use ralph_host::BlockStyle;
use ralph_host::claude::PROFILE;
use serde_json::Value;

const STYLES: [BlockStyle; 3] = [BlockStyle::Exit2, BlockStyle::Context, BlockStyle::Json];
const CONTEXT_LIMIT: usize = 10_000;

fuzz_target!(|data: &[u8]| {
    match (PROFILE.parse_event)(data) {
        Ok(HookEvent::Stop(stop)) => {
            is_plain(stop.session.as_ref());
            assert!(stop.pending.len() <= 200);
            for pending in &stop.pending {
                is_one_line(&pending.what, 120);
            }
            if let Some(trouble) = &stop.trouble {
                is_one_line(trouble.name(), 60);
            }
        }
        Ok(HookEvent::SubagentStop(stop)) => is_plain(stop.session.as_ref()),
        Ok(HookEvent::StopFailure(failure)) => {
            is_plain(failure.session.as_ref());
            is_one_line(failure.class.name(), 60);
        }
        Ok(HookEvent::Prompt(prompt)) => {
            is_plain(prompt.session.as_ref());
            if let Some(Err(mistake)) = slash_command::parse(&prompt.text) {
                is_one_line(&mistake.what, 200);
            }
        }
        Ok(HookEvent::SessionStart(start)) => is_plain(start.session.as_ref()),
        Ok(HookEvent::SessionEnd(end)) => {
            is_plain(end.session.as_ref());
            is_one_line(&end.reason, 60);
        }
        Ok(HookEvent::Compaction(compaction)) => is_plain(compaction.session.as_ref()),
        Ok(HookEvent::ToolCall(call)) => is_plain(call.session.as_ref()),
        Ok(HookEvent::ToolDone(done)) => is_plain(done.session.as_ref()),
        Ok(HookEvent::Task(task)) => is_plain(task.session.as_ref()),
        Ok(HookEvent::Idle(idle)) => is_plain(idle.session.as_ref()),
        Ok(HookEvent::Ignored(ignored)) => is_plain(ignored.session.as_ref()),
        Ok(HookEvent::Unknown) => {}
        Err(malformed) => is_one_line(&malformed.why, 120),
    }
    if let Some(input) = (PROFILE.parse_status_line)(data) {
        is_plain(Some(&input.session));
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

fn allows(style: BlockStyle, said: &str) {
    let reply = (PROFILE.render_verdict)(style, ReplyOccasion::Stop, &Verdict::Allow);
    assert!(reply.stdout.is_empty() && reply.stderr.is_empty() && reply.exit == 0);
    let notice = said.to_owned();
    let status = RunStatus::Verified;
    for verdict in [
        Verdict::AllowWithNotice(notice.clone()),
        Verdict::EndRun { status, notice, ring_bell: true },
    ] {
        let reply = (PROFILE.render_verdict)(style, ReplyOccasion::Stop, &verdict);
        assert!(reply.stderr.is_empty() && reply.exit == 0);
        let object: Value = serde_json::from_slice(&reply.stdout).unwrap();
        assert_eq!(object["systemMessage"], said);
        // An end also rings the terminal bell.
        let keys = if matches!(verdict, Verdict::EndRun { .. }) { 2 } else { 1 };
        assert_eq!(object.as_object().unwrap().len(), keys);
    }
}

fn blocks(style: BlockStyle, said: &str) {
    let reply = (PROFILE.render_verdict)(
        style,
        ReplyOccasion::Stop,
        &Verdict::Block { reason: said.to_owned() },
    );
    let object: Value = serde_json::from_slice(&reply.stdout).unwrap();
    match style {
        BlockStyle::Exit2 => {
            let line = format!("{}\n", said.trim_end());
            assert_eq!((reply.exit, &*reply.stderr), (2, line.as_bytes()));
            assert_eq!(object, serde_json::json!({}));
        }
        BlockStyle::Json => {
            assert_eq!((reply.exit, &*reply.stderr), (0, &b""[..]));
            assert_eq!(object, serde_json::json!({ "decision": "block", "reason": said }));
        }
        BlockStyle::Context => {
            assert_eq!((reply.exit, &*reply.stderr), (0, &b""[..]));
            let context = &object["hookSpecificOutput"]["additionalContext"];
            assert_eq!(*context, text::truncate(said, CONTEXT_LIMIT));
        }
    }
}
