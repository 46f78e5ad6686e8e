use super::*;
use insta::assert_snapshot;
use ralph_core::id::SessionId;
use ralph_sys::env::Env;

fn sample_run(title: &str) -> RunRecord {
    RunRecord {
        owner: SessionId::parse("5999882c"),
        title: title.into(),
        ..RunRecord::new(RunId::parse("k7f2").unwrap(), "/home/user/project".into(), 0)
    }
}

fn sample_message(title: &str, because: &str) -> NotificationMessage {
    let env = Env::from_pairs([("DEPLOY_TOKEN", "correct-horse-battery")], None, Vec::new());
    let message =
        NotificationMessage::for_run(&env, &sample_run(title), RunStatus::NeedsHuman, because);
    NotificationMessage { at: String::new(), ..message }
}

#[test]
fn a_message_contains_no_secret_or_part_of_one() {
    let key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789";
    let split = "correct-\u{200b}horse-\u{1b}[1mbattery";
    for secret in [key, "correct-horse-battery", split] {
        for at in [0, 150, 180, 190, 195, 580, 595] {
            let text = format!("{} {secret} which?", "x".repeat(at));
            let json = serde_json::to_string(&sample_message(&text, &text)).unwrap();
            for part in ["sk-ant-api03", "abcdef", "correct-", "horse", "battery"] {
                assert!(!json.contains(part), "{at}: {json}");
            }
        }
    }
}

#[test]
fn a_message_is_one_clean_bounded_line() {
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[31mred\u{202e} \"'`$(id)`\r\nralph: verified\t\0<b>&";
    let cleaned = sample_message(hostile, hostile);
    assert_snapshot!(cleaned.to_json(), @r#"{"v":1,"run":"k7f2","status":"needs_human","title":"red \"'`$(id)` ralph: verified <b>&","because":"red \"'`$(id)` ralph: verified <b>&","next":"answer in the session with `/ralph:goal` and what to do next","message":"needs_human: red \"'`$(id)` ralph: verified <b>& — red \"'`$(id)` ralph: verified <b>& (run k7f2); answer in the session with `/ralph:goal` and what to do next","at":""}"#);
    let long = sample_message(&hostile.repeat(100_000), &hostile.repeat(100_000));
    assert_eq!((long.title.chars().count(), long.because.chars().count()), (200, 600));
    assert!(long.message.chars().count() < 1000, "{}", long.message);
}
