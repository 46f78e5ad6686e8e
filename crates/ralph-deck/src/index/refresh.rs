//! Refreshes the index: reads new and changed sources, drops deleted ones, and leaves the rest alone.

use super::{RecallScope, schema};
use crate::learning::{self, Learning};
use crate::recall_context::RecallContext;
use crate::recall_record::{RecallKind, RecallRecord};
use crate::record_sources::lesson_records::lesson_records;
use crate::record_sources::memory::{self, ProjectMemoryFile};
use crate::record_sources::run_summary::RunSummary;
use ralph_core::id::RunId;
use ralph_home::store;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, FileStat};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// Maximum number of projects whose memory is read for a search over all projects.
const MOST_PROJECTS: usize = 200;
/// A file that was modified this recently may change again without a change of its timestamp.
const UNSETTLED_NS: u64 = 100_000_000;
/// The end of a run is final: its journal is not checked again after this time.
const FINAL_AFTER_NS: u64 = 3600 * 1_000_000_000;
/// With more changed sources than this, rebuilding the index is cheaper.
const REBUILD_FROM: usize = 500;

/// Whether all sources were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexCoverage {
    Whole,
    /// The time limit was reached; the next search continues.
    Partial,
}

/// A source as it was when it was last indexed.
struct IndexedSource {
    id: i64,
    stamp: SourceStamp,
    /// The project that a memory file belongs to; empty for files in ralph's home.
    owner: String,
    has_ended: bool,
}

/// Metadata that shows whether a file has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SourceStamp {
    length: i64,
    modified_ns: i64,
    inode: i64,
    /// Modification time of a companion file (a run's hand-over); 0 if there is none.
    companion_ns: i64,
}

enum SourceLocation {
    Run(RunId),
    Learning(PathBuf),
    Note {
        project: PathBuf,
        note: ProjectMemoryFile,
    },
    /// The lessons of a project.
    Lessons(PathBuf),
}

struct StaleSource {
    name: String,
    stamp: SourceStamp,
    place: SourceLocation,
}

struct SourceChanges {
    stale: Vec<StaleSource>,
    gone: Vec<i64>,
    /// Number of already indexed sources that changed or were deleted.
    replaced: usize,
}

pub(super) fn refresh_index(
    connection: &mut Connection,
    context: &RecallContext,
    (scope, deadline): (RecallScope, &Deadline),
) -> rusqlite::Result<IndexCoverage> {
    let known = indexed_sources(connection)?;
    let projects = projects(connection, context, scope)?;
    let mut changes = find_changes(context, &projects, &known);
    if changes.stale.is_empty() && changes.gone.is_empty() {
        return Ok(IndexCoverage::Whole);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if changes.replaced > REBUILD_FROM && changes.replaced > known.len() / 2 {
        schema::recreate_tables(&transaction)?;
        changes = self::find_changes(context, &projects, &HashMap::new());
    }
    let mut writer =
        IndexWriter { transaction, projects: HashMap::new(), optimize: OptimizeState::NotNeeded };
    for source in changes.gone {
        writer.drop_source(source)?;
    }
    let mut coverage = IndexCoverage::Whole;
    for stale in &changes.stale {
        if deadline.has_passed() {
            coverage = IndexCoverage::Partial;
            break;
        }
        writer.index_source(context, stale)?;
    }
    if changes.stale.len() > REBUILD_FROM {
        writer.optimize = OptimizeState::Needed;
    }
    writer.commit()?;
    Ok(coverage)
}

fn indexed_sources(connection: &Connection) -> rusqlite::Result<HashMap<String, IndexedSource>> {
    let columns = "name, id, owner, length, modified_ns, inode, beside_ns, has_ended";
    let mut statement = connection.prepare(&format!("SELECT {columns} FROM source"))?;
    let rows = statement.query_map([], |row| {
        let stamp = SourceStamp {
            length: row.get(3)?,
            modified_ns: row.get(4)?,
            inode: row.get(5)?,
            companion_ns: row.get(6)?,
        };
        let (id, owner, has_ended) = (row.get(1)?, row.get(2)?, row.get(7)?);
        Ok((row.get(0)?, IndexedSource { id, stamp, owner, has_ended }))
    })?;
    rows.collect()
}

/// The projects whose memory is read.
fn projects(
    connection: &Connection,
    context: &RecallContext,
    scope: RecallScope,
) -> rusqlite::Result<Vec<PathBuf>> {
    let mut projects = vec![context.project.clone()];
    if scope == RecallScope::Everywhere {
        let mut statement = connection.prepare("SELECT path FROM project ORDER BY id DESC")?;
        for path in statement.query_map([], |row| row.get::<_, String>(0))? {
            let path = PathBuf::from(path?);
            if projects.len() < MOST_PROJECTS && path.is_absolute() && !projects.contains(&path) {
                projects.push(path);
            }
        }
    }
    Ok(projects)
}

/// Compares the sources with the index. Newest first, in case the time limit is reached.
fn find_changes(
    context: &RecallContext,
    projects: &[PathBuf],
    known: &HashMap<String, IndexedSource>,
) -> SourceChanges {
    let mut stale = Vec::new();
    let mut seen = HashSet::new();
    let mut replaced = 0;
    let mut look =
        |name: String,
         place: SourceLocation,
         stamp: &dyn Fn(Option<&IndexedSource>) -> Option<SourceStamp>| {
            let before = known.get(&name);
            let Some(stamp) = stamp(before) else { return };
            seen.extend(before.map(|before| before.id));
            if before.is_none_or(|before| before.stamp != stamp || !stamp.is_settled()) {
                replaced += usize::from(before.is_some());
                stale.push(StaleSource { name, stamp, place });
            }
        };
    // If the runs cannot be listed, deleted ones are unknown and all are kept.
    let runs = store::list_runs(&context.home).ok();
    for run in runs.iter().flatten() {
        let stamp = |before: Option<&IndexedSource>| run_stamp(context, run, before);
        look(format!("runs/{run}"), SourceLocation::Run(run.clone()), &stamp);
    }
    for path in learning::learning_directories(context)
        .iter()
        .flat_map(|path| learning::learning_files(path))
    {
        let stamp = |_: Option<&IndexedSource>| fs::stat(&path).map(|stat| settled_stamp(&stat));
        look(path.display().to_string(), SourceLocation::Learning(path.clone()), &stamp);
    }
    for project in projects {
        for note in memory::memory_files(context, project) {
            let stamp = settled_stamp(&note.stat);
            let name = format!("{}\n{}", project.display(), note.path.display());
            let place = SourceLocation::Note { project: project.clone(), note };
            look(name, place, &|_| Some(stamp));
        }
        let lessons = context.home.project_memory(project);
        let name = format!("{}\n{}", project.display(), lessons.display());
        let stamp = |_: Option<&IndexedSource>| fs::stat(&lessons).map(|stat| settled_stamp(&stat));
        look(name, SourceLocation::Lessons(project.clone()), &stamp);
    }
    stale.sort_by_key(|stale| std::cmp::Reverse(stale.stamp.modified_ns));
    let owners: Vec<_> = projects.iter().map(|project| project.display().to_string()).collect();
    let is_gone = |(name, known): (&String, &IndexedSource)| {
        let is_looked_at = if known.owner.is_empty() {
            runs.is_some() || !name.starts_with("runs/")
        } else {
            owners.contains(&known.owner)
        };
        (is_looked_at && !seen.contains(&known.id)).then_some(known.id)
    };
    let gone: Vec<_> = known.iter().filter_map(is_gone).collect();
    let replaced = replaced + gone.len();
    SourceChanges { stale, gone, replaced }
}

fn run_stamp(
    context: &RecallContext,
    run: &RunId,
    before: Option<&IndexedSource>,
) -> Option<SourceStamp> {
    let ended = before.filter(|before| before.has_ended);
    if let Some(ended) = ended.filter(|ended| ended.stamp.is_older_than(FINAL_AFTER_NS)) {
        return Some(ended.stamp);
    }
    let paths = context.home.run(run);
    let mut stamp = SourceStamp::from_stat(&fs::stat(&paths.journal())?);
    // No hand-over is written after a run has ended.
    stamp.companion_ns = match ended {
        Some(ended) if ended.stamp.length == stamp.length => ended.stamp.companion_ns,
        Some(_) | None => {
            fs::stat(&paths.handover()).map_or(0, |stat| stat.modified_ns.cast_signed())
        }
    };
    Some(stamp)
}

/// A stamp whose time is 0 if it is too recent to be reliable, so that the file is read again at the next refresh.
fn settled_stamp(stat: &FileStat) -> SourceStamp {
    let stamp = SourceStamp::from_stat(stat);
    let is_fresh = stat.modified_ns.saturating_add(UNSETTLED_NS) > clock::now_ns();
    if is_fresh { SourceStamp { modified_ns: 0, ..stamp } } else { stamp }
}

impl SourceStamp {
    fn from_stat(stat: &FileStat) -> Self {
        Self {
            length: stat.len.cast_signed(),
            modified_ns: stat.modified_ns.cast_signed(),
            inode: stat.inode.cast_signed(),
            companion_ns: 0,
        }
    }

    fn is_settled(self) -> bool {
        self.modified_ns != 0
    }

    fn is_older_than(self, age_ns: u64) -> bool {
        self.modified_ns.cast_unsigned().saturating_add(age_ns) < clock::now_ns()
    }
}

struct IndexWriter<'a> {
    transaction: Transaction<'a>,
    projects: HashMap<String, i64>,
    optimize: OptimizeState,
}

/// Whether the full-text index should be optimised, which merges its segments and removes deleted words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptimizeState {
    NotNeeded,
    Needed,
}

impl IndexWriter<'_> {
    fn index_source(
        &mut self,
        context: &RecallContext,
        stale: &StaleSource,
    ) -> rusqlite::Result<()> {
        match &stale.place {
            SourceLocation::Run(run) => {
                let past =
                    self.stored_summary(stale)?.read_on(context, &context.home.run(run).journal());
                let records = past.records(context, run);
                // Strings and numbers only: serialising them cannot fail.
                let kept = serde_json::to_string(&past).unwrap_or_default();
                let source = self.upsert_source(stale, "", past.has_ended())?;
                let put = "INSERT INTO past (source, told) VALUES (?1, ?2)
                     ON CONFLICT (source) DO UPDATE SET told = ?2";
                self.transaction.prepare_cached(put)?.execute(params![source, kept])?;
                self.replace_records(source, &records)
            }
            SourceLocation::Learning(path) => {
                let source = self.upsert_source(stale, "", false)?;
                let record = learning::read_learning(context, path).map(learning_record);
                self.replace_records(source, record.as_slice())
            }
            SourceLocation::Note { project, note } => {
                let source = self.upsert_source(stale, &project.display().to_string(), false)?;
                self.replace_records(source, &memory::memory_records(context, project, note))
            }
            SourceLocation::Lessons(project) => {
                let source = self.upsert_source(stale, &project.display().to_string(), false)?;
                self.replace_records(source, &lesson_records(context, project))
            }
        }
    }

    /// The stored summary of a run whose journal was only appended to; an empty one otherwise.
    fn stored_summary(&self, stale: &StaleSource) -> rusqlite::Result<RunSummary> {
        let mut statement = self.transaction.prepare_cached(
            "SELECT told, length, modified_ns, inode FROM source JOIN past ON source = id WHERE name = ?1",
        )?;
        let found = statement
            .query_row([&stale.name], |row| {
                let before = (row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, i64>(3)?);
                Ok((row.get::<_, String>(0)?, before))
            })
            .optional()?;
        let Some((told, (length, modified_ns, inode))) = found else {
            return Ok(RunSummary::default());
        };
        let now = &stale.stamp;
        let is_same = length == now.length && modified_ns == now.modified_ns;
        let only_grew = inode == now.inode && (length < now.length || is_same);
        let past = only_grew.then(|| serde_json::from_str(&told).ok()).flatten();
        Ok(past.unwrap_or_default())
    }

    /// Inserts or updates the row of a source and returns its id.
    fn upsert_source(
        &mut self,
        StaleSource { name, stamp, .. }: &StaleSource,
        owner: &str,
        has_ended: bool,
    ) -> rusqlite::Result<i64> {
        let put =
            "INSERT INTO source (name, owner, length, modified_ns, inode, beside_ns, has_ended)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (name) DO UPDATE SET owner = ?2, length = ?3, modified_ns = ?4, inode = ?5,
             beside_ns = ?6, has_ended = ?7
             RETURNING id";
        let SourceStamp { length, modified_ns, inode, companion_ns: beside_ns } = stamp;
        self.transaction.prepare_cached(put)?.query_row(
            params![name, owner, length, modified_ns, inode, beside_ns, has_ended],
            |row| row.get(0),
        )
    }

    fn drop_source(&mut self, source: i64) -> rusqlite::Result<()> {
        self.replace_records(source, &[])?;
        for sql in ["DELETE FROM past WHERE source = ?1", "DELETE FROM source WHERE id = ?1"] {
            self.transaction.prepare_cached(sql)?.execute([source])?;
        }
        self.optimize = OptimizeState::Needed;
        Ok(())
    }

    /// Replaces the records of a source. Unchanged records, usually most of a file, are kept and cost almost nothing.
    fn replace_records(&mut self, source: i64, records: &[RecallRecord]) -> rusqlite::Result<()> {
        let mut before = self.current_records(source)?;
        for record in records {
            let RecallRecord { kind, run, at_ms, title, body, path, line, .. } = record;
            let project = self.project_id(&record.project)?;
            let known = before.get_mut(&(title.clone(), body.clone())).and_then(Vec::pop);
            let put = "INSERT INTO record (id, source, kind, run, project, at_ms, path, line)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT (id) DO UPDATE SET kind = ?3, run = ?4, project = ?5, at_ms = ?6,
                 path = ?7, line = ?8
                 RETURNING id";
            let id: i64 = self.transaction.prepare_cached(put)?.query_row(
                params![known, source, kind.name(), run, project, at_ms.cast_signed(), path, line],
                |row| row.get(0),
            )?;
            if known.is_none() {
                let put = "INSERT INTO words (rowid, title, body) VALUES (?1, ?2, ?3)";
                self.transaction.prepare_cached(put)?.execute(params![id, title, body])?;
            }
        }
        for id in before.into_values().flatten() {
            for sql in ["DELETE FROM words WHERE rowid = ?1", "DELETE FROM record WHERE id = ?1"] {
                self.transaction.prepare_cached(sql)?.execute([id])?;
            }
        }
        Ok(())
    }

    /// The ids of a source's current records, by title and text.
    fn current_records(
        &self,
        source: i64,
    ) -> rusqlite::Result<HashMap<(String, String), Vec<i64>>> {
        let mut statement = self.transaction.prepare_cached(
            "SELECT title, body, record.id FROM record JOIN words ON words.rowid = record.id
             WHERE source = ?1",
        )?;
        let mut rows = statement.query([source])?;
        let mut before: HashMap<_, Vec<i64>> = HashMap::new();
        while let Some(row) = rows.next()? {
            before.entry((row.get(0)?, row.get(1)?)).or_default().push(row.get(2)?);
        }
        Ok(before)
    }

    fn project_id(&mut self, path: &str) -> rusqlite::Result<i64> {
        if let Some(id) = self.projects.get(path) {
            return Ok(*id);
        }
        let put = "INSERT INTO project (path) VALUES (?1)
             ON CONFLICT (path) DO UPDATE SET path = ?1 RETURNING id";
        let id = self.transaction.prepare_cached(put)?.query_row([path], |row| row.get(0))?;
        self.projects.insert(path.to_string(), id);
        Ok(id)
    }

    fn commit(self) -> rusqlite::Result<()> {
        if self.optimize == OptimizeState::Needed {
            self.transaction.execute("INSERT INTO words (words) VALUES ('optimize')", [])?;
        }
        self.transaction.commit()
    }
}

fn learning_record(learning: Learning) -> RecallRecord {
    let Learning { path, project, run, title, at_ms, text, .. } = learning;
    let path = path.display().to_string();
    let run = run.map(|run| run.to_string());
    RecallRecord {
        kind: RecallKind::Learning,
        run,
        project,
        at_ms,
        title,
        body: text,
        path,
        line: None,
    }
}
