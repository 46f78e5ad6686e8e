//! `ralph recall` and `ralph learn`: searching past runs, hand-overs, memory files and learnings of a project.

use crate::recall_corpus;
use crate::sandbox::{SESSION, Sandbox, json_string, run_command, spawn_with_input, write_file};
use insta::assert_snapshot;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

const PROMISE_ARGS: [&str; 4] = ["--goal-file", "-", "--completion-promise", "DONE"];
const INDEX_FILE: &str = "index/recall.sqlite";

/// A sandbox with a generated corpus of about this many records.
fn sandbox_with_corpus(records: usize) -> Sandbox {
    let sandbox = Sandbox::without_git("project");
    for (path, bytes) in
        recall_corpus::corpus_files(&sandbox.ralph_home(""), sandbox.project(), records)
    {
        write_file(&path, bytes);
    }
    sandbox
}

/// A sandbox with one record of every kind.
fn sandbox_with_one_of_each() -> Sandbox {
    let sandbox = Sandbox::new();
    let mut start = sandbox.command();
    start.args(["start", "--session", SESSION]).args(PROMISE_ARGS);
    let goal =
        b"make the parser handle nested quotes\nA quote in a quote ends the string too early.\n";
    assert_eq!(run_command(&mut start, goal).code, Some(0));
    sandbox.send_stop(SESSION, "");
    let run = sandbox.status()["runs"][0]["run"].as_str().unwrap().to_string();
    let handover =
        "# Where it stands\n\nThe lexer handles quotes; the parser still drops the last one.\n";
    write_file(&sandbox.ralph_home("runs").join(run).join("handoff.md"), handover);
    sandbox.write("MEMORY.md", "intro\n\n# Parser\n\n## Quotes\n\nQuotes nest only in strings.\n");
    let learned = sandbox.ralph(["learn", "an escaped quote is two characters in the input"]);
    assert_eq!(learned.code, Some(0), "{learned}");
    sandbox
}

fn recall_json(sandbox: &Sandbox, args: &[&str]) -> Value {
    let ended = sandbox.ralph([&["recall", "--json"], args].concat());
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended}");
    serde_json::from_str(&ended.stdout).unwrap()
}

fn hit_titles(answer: &Value) -> Vec<&str> {
    answer["hits"].as_array().unwrap().iter().map(|hit| hit["title"].as_str().unwrap()).collect()
}

/// The output of a command with varying values masked.
fn normalized_output(sandbox: &Sandbox, args: &[&str]) -> String {
    sandbox.normalize(&sandbox.ralph(args).to_string())
}

fn snapshot_settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "[time]");
    settings.add_filter(r"\b\d{8}-\d{6}-", "[time]-");
    settings.add_filter(r"learnings/[0-9a-f]{32}", "learnings/[hash]");
    settings
}

#[test]
fn known_queries_find_their_records() {
    let sandbox = sandbox_with_corpus(2_000);
    let mut second = Vec::new();
    for (question, title) in recall_corpus::RECALL_QUERIES {
        let answer = recall_json(&sandbox, &["--limit", "2", question]);
        match hit_titles(&answer).iter().position(|found| *found == title) {
            Some(0) => {}
            Some(_) => second.push(question),
            None => panic!("{question}: {answer:#}"),
        }
    }
    assert!(second.len() <= 1, "{second:?}");
}

#[test]
fn recall_prints_hits_with_their_source() {
    let _filters = snapshot_settings().bind_to_scope();
    let sandbox = sandbox_with_one_of_each();
    assert_snapshot!(normalized_output(&sandbox, &["recall", "nested", "quotes"]), @"
    exit 0
    --- stdout
    memory    Parser › Quotes
              just now · `$ROOT/project/MEMORY.md:5`
              Quotes nest only in strings.
    handoff   make the parser handle nested quotes
              just now · run [run] · `$ROOT/home/.ralph/runs/[run]/handoff.md`
              # Where it stands The lexer handles quotes; the parser still drops the last one.
    note      an escaped quote is two characters in the input
              just now · `$ROOT/home/.ralph/learnings/[hash]/[time]-an-escaped-quote-is-two-characters-in-the.md`
    ");
    assert_snapshot!(normalized_output(&sandbox, &["recall", "lexer", "drops", "--kind", "handoff"]), @"
    exit 0
    --- stdout
    handoff   make the parser handle nested quotes
              just now · run [run] · `$ROOT/home/.ralph/runs/[run]/handoff.md`
              # Where it stands The lexer handles quotes; the parser still drops the last one.
    ");
    assert_snapshot!(normalized_output(&sandbox, &["recall", "kubernetes"]), @"
    exit 0
    --- stdout
    no record has any word of `kubernetes`
    searched: 1 run, 1 hand-over, 1 note, 2 sections of memory of `$ROOT/project`
    `--everywhere` searches all projects
    ");
    assert_snapshot!(normalized_output(&sandbox, &["recall", "parser", "--kind", "learning"]), @"
    exit 0
    --- stdout
    no record of kind `learning` has any word of `parser`
    searched: 1 run, 1 hand-over, 1 note, 2 sections of memory of `$ROOT/project`
    `--everywhere` searches all projects
    ");
    assert_snapshot!(normalized_output(&Sandbox::new(), &["recall", "anything"]), @r#"
    exit 0
    --- stdout
    no records of `$ROOT/project` yet
      runs       from `ralph start`
      notes      from `ralph learn "…"`
      lessons    from runs that were held
      memory     from `MEMORY.md`, `CLAUDE.md`, `AGENTS.md`, `docs/plans/*/MEMORY.md`, `.claude/memory/*.md` and progress files
    "#);
    let everywhere = normalized_output(&sandbox, &["recall", "escaped", "--everywhere"]);
    assert_snapshot!(everywhere, @"
    exit 0
    --- stdout
    note      an escaped quote is two characters in the input
              just now · `$ROOT/home/.ralph/learnings/[hash]/[time]-an-escaped-quote-is-two-characters-in-the.md` · in `$ROOT/project`
    ");
}

#[test]
fn json_output_has_the_same_hits() {
    let _filters = snapshot_settings().bind_to_scope();
    let sandbox = sandbox_with_one_of_each();
    assert_snapshot!(normalized_output(&sandbox, &["recall", "escaped", "nest", "--json"]), @r##"
    exit 0
    --- stdout
    {"v":1,"query":"escaped nest","project":"$ROOT/project","hits":[{"kind":"learning","run":null,"project":"$ROOT/project","at":"[time]","title":"an escaped quote is two characters in the input","path":"$ROOT/home/.ralph/learnings/[hash]/[time]-an-escaped-quote-is-two-characters-in-the.md","line":null,"snippet":"an escaped quote is two characters in the input","found":["escaped"],"every_word":false,"score":1.8241},{"kind":"handoff","run":"[run]","project":"$ROOT/project","at":"[time]","title":"make the parser handle nested quotes","path":"$ROOT/home/.ralph/runs/[run]/handoff.md","line":null,"snippet":"# Where it stands The lexer handles quotes; the parser still drops the last one.","found":["nested"],"every_word":false,"score":0.0},{"kind":"memory","run":null,"project":"$ROOT/project","at":"[time]","title":"Parser › Quotes","path":"$ROOT/project/MEMORY.md","line":5,"snippet":"Quotes nest only in strings.","found":["nest"],"every_word":false,"score":0.0}],"searched":{"runs":1,"handoffs":1,"learnings":1,"lessons":0,"memory":2},"complete":true,"index":"kept"}
    "##);
}

#[test]
fn learnings_are_saved_listed_found_and_forgotten() {
    let _filters = snapshot_settings().bind_to_scope();
    let sandbox = Sandbox::new();
    let text = "# Redis first\n\nThe integration tests need a running redis.\n";
    let saved = sandbox.ralph_with_input(["learn", "-", "--json"], text.as_bytes());
    let saved: Value = serde_json::from_str(&saved.stdout).unwrap();
    let id = saved["id"].as_str().unwrap();
    let file = fs::read_to_string(saved["path"].as_str().unwrap()).unwrap();
    assert_snapshot!(sandbox.normalize(&file), @r#"
    ---
    v: 1
    project: "$ROOT/project"
    title: "Redis first"
    at: [time]
    ---

    # Redis first

    The integration tests need a running redis.
    "#);

    let again = sandbox.ralph_with_input(["learn", "-"], text.as_bytes());
    assert_snapshot!(sandbox.normalize(&again.to_string()), @"
    exit 0
    --- stdout
    [time]-redis-first  saved already: Redis first
      `$ROOT/home/.ralph/learnings/[hash]/[time]-redis-first.md`
    ");
    assert_snapshot!(normalized_output(&sandbox, &["learn", "--list"]), @"
    exit 0
    --- stdout
    [time]-redis-first  Redis first   just now
    ");
    assert_eq!(hit_titles(&recall_json(&sandbox, &["redis", "integration"])), ["Redis first"]);

    let mut agent = sandbox.command();
    agent.env("CLAUDECODE", "1").args(["learn", "--forget", id]);
    assert_snapshot!(run_command(&mut agent, b"").to_string(), @"
    exit 1
    --- stderr
    error: an agent may not delete learnings
      hint: ask a person to do this in their own terminal
    ");
    assert_snapshot!(normalized_output(&sandbox, &["learn", "--forget", id]), @"
    exit 0
    --- stdout
    [time]-redis-first  forgotten: Redis first
    ");
    assert_snapshot!(normalized_output(&sandbox, &["learn", "--forget", id]), @"
    exit 1
    --- stderr
    error: no learning has the id `[time]-redis-first`
      hint: `ralph list learnings` shows the ids
    ");
    assert_snapshot!(normalized_output(&sandbox, &["learn", "--list"]), @r#"
    exit 0
    --- stdout
    no learnings in `$ROOT/project` yet; `ralph learn "…"` saves one
    "#);
    assert_eq!(hit_titles(&recall_json(&sandbox, &["redis"])), [""; 0]);
    let index = fs::read(sandbox.ralph_home(INDEX_FILE)).unwrap();
    assert!(!index.windows(5).any(|part| part == b"integ"), "no text of it is left in the index");
    for hostile in ["../../runs", "", "a/b", "a\nb", "."] {
        assert_eq!(sandbox.ralph(["learn", "--forget", hostile]).code, Some(1), "{hostile:?}");
    }
}

#[test]
fn an_agent_learns_for_its_own_run_only() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    let other = sandbox.start_run_for("other", PROMISE_ARGS);
    let learn = |session: &str, more: &[&str]| {
        let mut command = sandbox.command();
        command.env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", session);
        command.args(["learn", "--json", "ports are taken at random"]).args(more);
        run_command(&mut command, b"")
    };
    let refused = learn(SESSION, &["--run", &other]);
    assert_snapshot!(refused.to_string(), @"
    exit 1
    --- stderr
    error: that run holds another session
      hint: an agent can act only for its own session
    ");
    let without_run: Value = serde_json::from_str(&learn("no-run", &[]).stdout).unwrap();
    assert_eq!((&without_run["run"], &without_run["new"]), (&Value::Null, &Value::Bool(true)));
    let own = learn(SESSION, &["--title", "Ports"]);
    let own: Value = serde_json::from_str(&own.stdout).unwrap();
    assert_eq!((own["run"].as_str(), own["title"].as_str()), (Some(&*run), Some("Ports")));
}

/// The host of a run that cannot be read may be the caller.
#[test]
fn learnings_are_not_deleted_while_a_run_cannot_be_read() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    let saved = sandbox.ralph(["learn", "--json", "ports are taken at random"]);
    let saved: Value = serde_json::from_str(&saved.stdout).unwrap();
    let id = saved["id"].as_str().unwrap();
    for file in ["run.json", "state.json", "journal.jsonl"] {
        fs::write(sandbox.ralph_home(&format!("runs/{run}/{file}")), "{").unwrap();
    }
    let refused = sandbox.ralph(["learn", "--forget", id]).to_string();
    assert_snapshot!(sandbox.normalize(&refused.replace(&run, "[run]")), @"
    exit 1
    --- stderr
    error: cannot read `$ROOT/home/.ralph/runs/[run]/journal.jsonl` or rebuild it from the run's other files
      hint: the files are kept; look at `$ROOT/home/.ralph/runs/[run]/journal.jsonl`
    ");
}

#[test]
fn empty_and_oversized_learnings_are_refused() {
    let sandbox = Sandbox::new();
    let long = "x".repeat(17 * 1024);
    let mut out = String::new();
    for args in [&["learn"][..], &["learn", " "], &["learn", "\u{202e}"], &["learn", &long]] {
        out.push_str(&sandbox.ralph(args).to_string());
    }
    out.push_str(&sandbox.ralph_with_input(["learn", "-"], long.as_bytes()).to_string());
    assert_snapshot!(out, @r#"
    exit 1
    --- stderr
    error: `TEXT` is missing
      hint: run `ralph learn --help`

    exit 1
    --- stderr
    error: the learning is empty
      hint: give the text: `ralph learn "…"`

    exit 1
    --- stderr
    error: the learning is empty
      hint: give the text: `ralph learn "…"`

    exit 1
    --- stderr
    error: a learning has at most 16384 bytes, and this one has 17408
      hint: shorten it to a few sentences

    exit 1
    --- stderr
    error: a learning has at most 16384 bytes, and this one has 17408
      hint: shorten it to a few sentences
    "#);
    assert!(!sandbox.ralph_home("learnings").exists());
}

#[test]
fn no_query_breaks_the_search() {
    let sandbox = sandbox_with_one_of_each();
    let long = "quote ".repeat(20_000);
    for (query, found) in [
        ("\"", 0),
        ("quotes\"", 3),
        ("'quotes' OR 1=1; DROP TABLE words; --", 3),
        ("quotes NEAR(a b, 2", 3),
        ("title:quotes ^body {x y}: z", 3),
        ("*", 0),
        ("quo*", 3),
        ("NOT quotes", 3),
        ("AND", 0),
        ("-- () : ^ + ~", 0),
        ("\u{202e}\u{200b}", 0),
        ("Zitate „quotes“ 引用符", 3),
        ("QUÖTES", 3),
        (&long[..100_000], 3),
        (&"a".repeat(100_000), 0),
        (" ", 0),
    ] {
        let answer = recall_json(&sandbox, &["--", query]);
        assert_eq!(answer["hits"].as_array().unwrap().len(), found, "{query:.60}: {answer}");
    }
    assert_eq!(sandbox.ralph(["recall"]).code, Some(1));
    assert_eq!(sandbox.ralph(["recall", ""]).code, Some(0));
}

#[test]
fn a_damaged_index_is_rebuilt_and_an_unwritable_one_is_kept_in_memory() {
    let sandbox = sandbox_with_corpus(200);
    let ask = || recall_json(&sandbox, &["halos around logos"]);
    let first = ask();
    assert_eq!(first["hits"][0]["title"], "port the image pipeline to webp");
    let index = sandbox.ralph_home(INDEX_FILE);
    assert_eq!(fs::metadata(&index).unwrap().permissions().mode() & 0o777, 0o600);
    let good = fs::read(&index).unwrap();

    let mut holed = good.clone();
    holed[4096..].fill(0xff);
    let mut half = good.clone();
    half.truncate(good.len() / 2);
    let mut newer = good.clone();
    newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
    for damaged in [b"not a database".to_vec(), Vec::new(), vec![0; 50_000], holed, half, newer] {
        fs::write(&index, &damaged).unwrap();
        assert_eq!(ask(), first, "{} bytes", damaged.len());
    }
    fs::write(sandbox.ralph_home("index/recall.sqlite-journal"), &good).unwrap();
    assert_eq!(ask(), first);

    // A directory, or a symlink to another file, in place of the index.
    let mut in_memory = first.clone();
    in_memory["index"] = "in_memory".into();
    let elsewhere = write_file(&sandbox.root().join("elsewhere"), "precious");
    fs::remove_file(&index).unwrap();
    symlink(&elsewhere, &index).unwrap();
    assert_eq!(ask(), in_memory);
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "precious");
    fs::remove_file(&index).unwrap();
    fs::create_dir(&index).unwrap();
    assert_eq!(ask(), in_memory);
    fs::remove_dir(&index).unwrap();
    fs::remove_file(sandbox.ralph_home("index/lock")).unwrap();
    fs::remove_dir(sandbox.ralph_home("index")).unwrap();
    write_file(&sandbox.ralph_home("index"), "in the way");
    assert_eq!(ask(), in_memory);
}

#[test]
fn concurrent_searches_get_the_same_answer() {
    let sandbox = sandbox_with_corpus(300);
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = sandbox.command();
            spawn_with_input(command.args(["recall", "--json", "batch size", "lock timeout"]), b"")
        })
        .collect();
    let answers: Vec<String> = children
        .into_iter()
        .map(|child| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap())
        .collect();
    let after = recall_json(&sandbox, &["batch size", "lock timeout"]);
    assert_eq!(after["index"], "kept");
    assert_eq!(after["hits"][0]["title"], "split the user table of the monolith");
    for answer in answers {
        assert_eq!(serde_json::from_str::<Value>(&answer).unwrap(), after);
    }
}

#[test]
fn the_index_follows_new_changed_and_deleted_records() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(PROMISE_ARGS);
    let count = |query: &str| recall_json(&sandbox, &[query])["hits"].as_array().unwrap().len();
    assert_eq!((count("make it work"), count("zebra")), (1, 0));

    let tasks = format!("{SESSION}/tasks/1.json");
    sandbox.write_state(&tasks, r#"{"status":"pending","subject":"count the zebra stripes"}"#);
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert_eq!(count("zebra"), 1, "the journal grew");
    assert!(sandbox.send_stop(SESSION, "").is_block());
    let answer = recall_json(&sandbox, &["zebra"]);
    assert_eq!((&answer["hits"][0]["run"], count("make it work")), (&json_text(&run), 1));
    assert_eq!(sandbox.ralph(["cancel", &run]).code, Some(0));
    assert_eq!(count("cancelled"), 1);

    let memory = sandbox.write("CLAUDE.md", "# Rules\n\ngiraffes first\n");
    assert_eq!(count("giraffe"), 1);
    fs::write(&memory, "# Rules\n\nno giraffe\n").unwrap();
    assert_eq!(hit_titles(&recall_json(&sandbox, &["giraffe"])), ["Rules"]);
    fs::write(&memory, "# Rules\n\nelephants!\n").unwrap();
    assert_eq!((count("giraffe"), count("elephant")), (0, 1), "even if the file keeps its length");
    fs::remove_file(&memory).unwrap();
    assert_eq!(count("elephant"), 0);

    fs::remove_dir_all(sandbox.ralph_home("runs").join(&run)).unwrap();
    assert_eq!(count("zebra"), 0);
}

fn json_text(text: &str) -> Value {
    Value::String(text.to_string())
}

#[test]
fn every_known_memory_file_is_searched() {
    let sandbox = Sandbox::new();
    let inside = [
        "MEMORY.md",
        "CLAUDE.md",
        "AGENTS.md",
        "claude-progress.txt",
        "docs/plans/parser/MEMORY.md",
        ".claude/memory/notes.md",
        ".claude/data/ralph-loops/csv/progress.txt",
        ".ralph/memory.md",
        ".ralph/progress.md",
        ".ralph/guardrails.md",
    ];
    let not = ["docs/plans/parser/PLAN.md", "README.md", "src/MEMORY.md", ".claude/memory/a.txt"];
    for path in inside.iter().chain(&not) {
        sandbox.write(path, "the walrus sleeps\n");
    }
    let slug = sandbox.project().display().to_string();
    let slug: String =
        slug.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '-' }).collect();
    let client = sandbox.home().join(".claude/projects").join(slug).join("memory");
    write_file(&client.join("MEMORY.md"), "the walrus sleeps\n");
    let outside = write_file(&sandbox.root().join("outside.md"), "the walrus sleeps\n");
    symlink(&outside, sandbox.project().join(".claude/memory/link.md")).unwrap();
    symlink("notes.md", sandbox.project().join(".claude/memory/own-link.md")).unwrap();
    symlink("loop.md", sandbox.project().join(".claude/memory/loop.md")).unwrap();

    let answer = recall_json(&sandbox, &["walrus", "--limit", "100"]);
    let hits = answer["hits"].as_array().unwrap();
    let mut found: Vec<_> =
        hits.iter().map(|hit| sandbox.normalize(hit["path"].as_str().unwrap())).collect();
    found.sort();
    let client = sandbox.normalize(&client.join("MEMORY.md").display().to_string());
    let mut expected: Vec<_> = inside.iter().map(|path| format!("$ROOT/project/{path}")).collect();
    expected.extend([client, "$ROOT/project/.claude/memory/own-link.md".to_string()]);
    expected.sort();
    assert_eq!(found, expected);
}

/// R-S7a: secrets are written neither to the index nor to a learning.
#[test]
fn secrets_are_not_indexed() {
    let token = format!("ghp_{}", "A".repeat(36));
    let value = "correct horse battery";
    let sandbox = Sandbox::new().env("DB_PASSWORD", value);
    let text = format!("the giraffe pays with {token} and {value}");
    let mut start = sandbox.command();
    start.args(["start", "--session", SESSION]).args(PROMISE_ARGS);
    assert_eq!(run_command(&mut start, text.as_bytes()).code, Some(0));
    let run = sandbox.status()["runs"][0]["run"].as_str().unwrap().to_string();
    write_file(&sandbox.ralph_home("runs").join(run).join("handoff.md"), &text);
    sandbox.write("MEMORY.md", &text);
    assert_eq!(sandbox.ralph(["learn", &text, "--title", &text]).code, Some(0));
    let found = sandbox.ralph(["recall", "giraffe", "--json"]).stdout;
    assert_eq!(found.matches("[redacted] and [redacted]").count(), 5, "{found}");
    for (path, bytes) in sandbox.read_home() {
        let is_ours =
            ["index", "learnings"].iter().any(|name| path.starts_with(sandbox.ralph_home(name)));
        for secret in [token.as_bytes(), value.as_bytes()] {
            let holds = bytes.windows(secret.len()).any(|part| part == secret);
            assert!(!(is_ours && holds), "{}", path.display());
        }
    }
}

#[test]
fn other_projects_are_searched_only_on_request() {
    let sandbox = Sandbox::new();
    let other = sandbox.root().join("other");
    let nearly = sandbox.root().join("project-two");
    for place in [&other, &nearly] {
        fs::create_dir_all(place).unwrap();
        write_file(&place.join("MEMORY.md"), "the walrus sleeps\n");
        let place = place.to_str().unwrap();
        assert_eq!(sandbox.ralph(["learn", "walrus", "--project", place]).code, Some(0));
        assert_eq!(
            recall_json(&sandbox, &["walrus", "--project", place])["hits"][1]["project"],
            place
        );
    }
    assert_eq!(hit_titles(&recall_json(&sandbox, &["walrus"])), [""; 0]);
    assert_eq!(
        recall_json(&sandbox, &["walrus", "--everywhere"])["hits"].as_array().unwrap().len(),
        4
    );
    let below = sandbox.project().join("crates/one");
    fs::create_dir_all(&below).unwrap();
    assert_eq!(sandbox.ralph(["learn", "walrus", "--project", "crates/one"]).code, Some(0));
    assert_eq!(
        hit_titles(&recall_json(&sandbox, &["walrus"])),
        ["walrus"],
        "a subdirectory belongs to the project"
    );
    let mut from_below = sandbox.command();
    from_below.current_dir(&below).args(["recall", "walrus", "--json"]);
    let answer: Value = serde_json::from_str(&run_command(&mut from_below, b"").stdout).unwrap();
    assert_eq!(
        hit_titles(&answer),
        ["walrus"],
        "a search from a subdirectory covers the whole project"
    );
}

#[test]
fn a_damaged_journal_is_still_searched() {
    let sandbox = sandbox_with_corpus(20);
    let query = "may invoices be deleted";
    let before = recall_json(&sandbox, &[query]);
    assert_eq!(before["hits"][0]["title"], "move billing to the new provider");
    let run = before["hits"][0]["run"].as_str().unwrap();
    let journal = sandbox.ralph_home("runs").join(run).join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("148", "149", 1) + "{\"half a line").unwrap();
    let answer = recall_json(&sandbox, &[query]);
    assert_eq!(answer["hits"][0]["title"], "move billing to the new provider");
    fs::write(&journal, text.replace("invoices", "zebras__") + &json_string("x") + "\n").unwrap();
    assert_eq!(
        hit_titles(&recall_json(&sandbox, &["zebras"])),
        ["move billing to the new provider"]
    );
    fs::write(&journal, "").unwrap();
    assert_eq!(hit_titles(&recall_json(&sandbox, &["zebras"])), [""; 0]);
}
