use super::*;
use crate::learning::{LearningDraft, LearningNovelty};
use ralph_core::id::RunId;
use ralph_home::paths::RalphHome;
use ralph_sys::env::Env;
use ralph_sys::fs::{self, Durability};
use std::path::Path;
use tempfile::TempDir;

fn context(directory: &TempDir) -> RecallContext {
    let root = fs::resolve(directory.path()).unwrap();
    let project = root.join("project");
    fs::create_private_dir(&project).unwrap();
    let env = Env::from_pairs([("HOME", root.join("home"))], None, Vec::new());
    RecallContext::new(&env, RalphHome::new(root.join("ralph")), &project)
}

fn asked(query: &str) -> RecallQuery<'_> {
    RecallQuery { text: query, scope: RecallScope::Project, kind: None, limit: 8 }
}

fn titles(context: &RecallContext, query: &str) -> Vec<String> {
    let title = |hit: &RecallHit| {
        let text = |piece: &TextPiece| match piece {
            TextPiece::Plain(text) | TextPiece::Found(text) => text.clone(),
        };
        hit.title.iter().map(text).collect()
    };
    search(context, &asked(query)).unwrap().hits.iter().map(title).collect()
}

#[test]
fn a_learning_is_found_until_it_is_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&directory);
    let run = RunId::parse("k7f2").unwrap();
    let draft =
        LearningDraft { text: "ports are taken at random\n\nmore", title: None, run: Some(&run) };
    let (saved, novelty) = learning::save(&context, &draft).unwrap();
    assert_eq!(
        (novelty, saved.title.as_str()),
        (LearningNovelty::New, "ports are taken at random")
    );
    assert_eq!(learning::list(&context), std::slice::from_ref(&saved));
    assert_eq!(learning::save(&context, &draft).unwrap(), (saved.clone(), LearningNovelty::Known));
    assert!(finds_learning(&context, &saved.id).unwrap());
    for id in ["", "../ralph", "20260101-000000-other", "x\0y"] {
        assert!(!finds_learning(&context, id).unwrap(), "{id:?}");
    }

    // A learning without words cannot be found.
    let silent = saved.path.with_file_name("silent.md");
    fs::replace(&silent, b"---\nv: 1\n---\n?!\n", Durability::Cached).unwrap();
    assert!(!finds_learning(&context, "silent").unwrap());

    learning::forget(&context, &saved.id).unwrap();
    assert!(!finds_learning(&context, &saved.id).unwrap());
    assert_eq!(titles(&context, "ports"), [""; 0]);
}

#[test]
fn records_with_all_words_rank_first() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&directory);
    let text = "# Rare\nzebra zebra zebra\n# Both\nthe zebra of the parser, among many other words\n\
                # One\nparser\n# Two\nparser\n";
    let memory = context.project.join("MEMORY.md");
    fs::replace(&memory, text.as_bytes(), Durability::Cached).unwrap();
    assert_eq!(titles(&context, "parser zebra"), ["Both", "Rare", "One", "Two"]);
    assert_eq!(titles(&context, "zebras"), ["Rare", "Both"]);
    assert_eq!(titles(&context, "zeb"), ["Rare", "Both"]);
    assert_eq!(titles(&context, "zeb parser"), ["One", "Two", "Both"]);
}

#[test]
fn a_locked_index_is_copied_and_refreshed() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&directory);
    let memory = context.project.join("MEMORY.md");
    fs::replace(&memory, b"giraffe", Durability::Cached).unwrap();
    assert_eq!(search(&context, &asked("giraffe")).unwrap().storage, IndexStorage::OnDisk);
    fs::replace(&memory, b"elephant", Durability::Cached).unwrap();

    let held = rusqlite::Connection::open(context.home.recall_index()).unwrap();
    held.execute_batch("BEGIN IMMEDIATE").unwrap();
    let answer = search(&context, &asked("elephant")).unwrap();
    assert_eq!((answer.hits.len(), answer.storage), (1, IndexStorage::InMemory));
    assert_eq!(search(&context, &asked("giraffe")).unwrap().hits, []);
    held.execute_batch("ROLLBACK").unwrap();
    assert_eq!(search(&context, &asked("elephant")).unwrap().storage, IndexStorage::OnDisk);
}

#[test]
fn an_appended_journal_is_read_incrementally() {
    use crate::record_sources::run_summary::RunSummary;
    let directory = tempfile::tempdir().unwrap();
    let context = context(&directory);
    let path = directory.path().join("journal.jsonl");
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/state/v1/journal.jsonl");
    let lines = chained(&fs::read(&fixture, 1 << 20).unwrap());
    let mut past = RunSummary::default();
    for end in 1..=lines.len() {
        fs::replace(&path, &lines[..end].concat(), Durability::Cached).unwrap();
        past = past.read_on(&context, &path);
        assert_eq!(past, RunSummary::default().read_on(&context, &path), "{end} lines");
    }
    // A torn line is left for later; a broken chain makes the whole journal be read again.
    fs::append(&path, b"{\"v\":1", Durability::Cached).unwrap();
    assert_eq!(past.clone().read_on(&context, &path), past);
    fs::replace(&path, &lines[..1].concat(), Durability::Cached).unwrap();
    fs::append(&path, &lines[2], Durability::Cached).unwrap();
    assert_eq!(
        past.read_on(&context, &path).read_on(&context, &path),
        RunSummary::default().read_on(&context, &path)
    );
}

/// The fixture's lines, chained with their hashes.
fn chained(fixture: &[u8]) -> Vec<Vec<u8>> {
    let mut head = String::new();
    let lines = fixture.split_inclusive(|byte| *byte == b'\n');
    let link = |line: &[u8]| {
        let mut entry: serde_json::Value = serde_json::from_slice(line).unwrap();
        entry["prev"] = std::mem::take(&mut head).into();
        let line = format!("{entry}\n").into_bytes();
        head = ralph_home::journal::hash_bytes(&line);
        line
    };
    lines.map(link).collect()
}
