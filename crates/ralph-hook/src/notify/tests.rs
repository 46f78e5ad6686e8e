use super::*;
use insta::assert_snapshot;
use ralph_core::id::SessionId;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use std::time::Duration;

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
        NotificationMessage::for_end(&env, &sample_run(title), RunStatus::NeedsHuman, because);
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
    assert_snapshot!(cleaned.to_json(), @r#"{"v":1,"run":"k7f2","status":"needs_human","title":"red \"'`$(id)` ralph: verified <b>&","because":"red \"'`$(id)` ralph: verified <b>&","next":"answer in the session with `/ralph:goal` and what to do next, or close the run with `ralph cancel k7f2`","message":"needs_human: red \"'`$(id)` ralph: verified <b>& — red \"'`$(id)` ralph: verified <b>& (run k7f2); answer in the session with `/ralph:goal` and what to do next, or close the run with `ralph cancel k7f2`","at":""}"#);
    let long = sample_message(&hostile.repeat(100_000), &hostile.repeat(100_000));
    assert_eq!((long.title.chars().count(), long.because.chars().count()), (200, 600));
    assert!(long.message.chars().count() < 1000, "{}", long.message);
}

/// Slack reads `<…>` in `text` as a mention or a link. The structured fields are data, so they stay as they are.
#[test]
fn the_text_of_a_webhook_contains_no_chat_markup() {
    let goal = "<!channel> R&D asks <@U024BE7LH>";
    let question = "see <http://evil|the log> &lt;!here&gt; > all";
    let body = super::channels::webhook_body(&sample_message(goal, question));
    assert_snapshot!(body, @r#"{"text":"needs_human: &lt;!channel&gt; R&amp;D asks &lt;@U024BE7LH&gt; — see &lt;http://evil|the log&gt; &amp;lt;!here&amp;gt; &gt; all (run k7f2); answer in the session with `/ralph:goal` and what to do next, or close the run with `ralph cancel k7f2`","v":1,"run":"k7f2","status":"needs_human","title":"<!channel> R&D asks <@U024BE7LH>","because":"see <http://evil|the log> &lt;!here&gt; > all","next":"answer in the session with `/ralph:goal` and what to do next, or close the run with `ralph cancel k7f2`","message":"needs_human: <!channel> R&D asks <@U024BE7LH> — see <http://evil|the log> &lt;!here&gt; > all (run k7f2); answer in the session with `/ralph:goal` and what to do next, or close the run with `ralph cancel k7f2`","at":""}"#);
}

/// Every end but a cancellation, which a person already knows of, is announced unless `notify.on` names others.
#[test]
fn every_final_status_is_announced_by_default() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::from_pairs([("RALPH_HOME", directory.path().join("home"))], None, Vec::new());
    let world = World::new(env, Deadline::after(Duration::from_mins(1))).unwrap();
    fs::create_private_dir(&directory.path().join("home")).unwrap();
    // Only the bell, because any other channel starts a worker.
    let config = b"[notify]\nbell = true\n";
    fs::replace(&world.home.user_config(), config, Durability::Cached).unwrap();
    let mut announced = String::new();
    for status in RunStatus::ALL {
        let id = status.name().replace('_', "-");
        let run = RunRecord { id: RunId::parse(&id).unwrap(), ..sample_run("make it work") };
        fs::create_private_dir(world.home.run(&run.id).directory()).unwrap();
        let rings = announce_end(&world, &run, status, "why");
        let path = NotifiedEvent::End.record(&world, &run.id);
        assert_eq!((rings, fs::exists(&path)), (status != RunStatus::Cancelled, rings), "{id}");
        if rings {
            let bytes = fs::read(&path, MAX_RECORD_BYTES).unwrap();
            let record: NotificationRecord = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(record.message.status, status.name());
            announced += &format!("{}\n", record.message.message);
        }
    }
    assert_snapshot!(announced, @"
    verified: make it work — why (run verified); see `ralph why verified`
    green: make it work — why (run green); review the change (`ralph checkpoint diff green`) and run `ralph accept green`, or start a new run that adds a test
    claimed: make it work — why (run claimed); review it before you rely on it; `ralph gate detect` proposes gates that could measure it
    exhausted: make it work — why (run exhausted); `ralph why exhausted` shows what is open; to continue, run `/ralph:goal` in the session with a higher `--max-iterations`, `--max-duration` or `--max-cost-usd`
    stuck: make it work — why (run stuck); `ralph why stuck` shows what it is stuck on; help with that, then run `/ralph:goal` again
    needs_human: make it work — why (run needs-human); answer in the session with `/ralph:goal` and what to do next, or close the run with `ralph cancel needs-human`
    needs_review: make it work — why (run needs-review); review the change before you keep it; `ralph why needs-review` shows what was detected, `ralph accept needs-review` accepts it
    gate_broken: make it work — why (run gate-broken); `ralph why gate-broken` shows what broke; fix it, then run `/ralph:goal` again
    rate_limited: make it work — why (run rate-limited); run `/ralph:goal` again when the rate limit resets
    overridden: make it work — why (run overridden); the client overrode the hook: `ralph init` raises its block cap; then run `/ralph:goal` again
    crashed: make it work — why (run crashed); `ralph status` shows what broke; then run `/ralph:goal` again
    ");
}
