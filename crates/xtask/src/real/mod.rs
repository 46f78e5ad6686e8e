//! Replays bug fixes of published projects: sources from three registries, gates that `ralph gate detect` proposes, and
//! sessions that the Stop hook holds. The fixes are data in `crates/xtask/real`.

mod fix_record;
mod fix_replay;
mod fix_table;
mod published_project;
mod registry_source;

use crate::{RealOptions, disk, print, shell};
use anyhow::{Result, bail, ensure};
use fix_record::{FixRecord, RecordRow};
use fix_table::FixCase;
use ralph_sys::clock;
use std::path::Path;

const RECORD: &str = "docs/design/real-projects.md";

pub(crate) fn run(options: &RealOptions) -> Result<()> {
    let all = fix_table::load_cases()?;
    let cases = select_cases(&all, options)?;
    if options.list {
        for case in &cases {
            let share = if case.in_ci { ", in CI" } else { "" };
            let registry = case.registry.name();
            print::print_line(&format!("{} ({registry}{share}): {}", case.label(), case.fix.about));
        }
        return Ok(());
    }
    let ralph = match &options.ralph {
        Some(program) => program.clone(),
        None => shell::build_program("dev", "ralph")?,
    };
    let (mut wrong, mut drifted) = (Vec::new(), Vec::new());
    for case in cases {
        let began = shell::instant();
        let row = match play_case(case, &ralph) {
            Ok(row) => row,
            Err(error) => {
                print::print_line(&format!("{}: {error:#}", case.label()));
                wrong.push(format!("{}: not replayed, see above", case.label()));
                continue;
            }
        };
        let time = began.elapsed().as_secs();
        print::print_line(&format!("{}: {} ({time} s)", case.label(), row.summary()));
        for mistake in row.mistakes() {
            print::print_line(&format!("  {mistake}"));
        }
        wrong.extend(row.surprise(case));
        if !options.ci {
            write_row(row, &all)?;
        } else if !read_record().agrees_with(&row) {
            drifted.push(case.label());
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(
        drifted.is_empty(),
        "`{RECORD}` is out of date for {}: run `cargo xtask real` with their names",
        drifted.join(", ")
    );
    Ok(())
}

fn read_record() -> FixRecord {
    let text = disk::read_text(&shell::repository_root().join(RECORD));
    FixRecord::parse(&text.unwrap_or_default())
}

/// Each row is written at once, since a replay of everything takes long.
fn write_row(row: RecordRow, all: &[FixCase]) -> Result<()> {
    let mut record = read_record();
    record.put(row);
    let path = shell::repository_root().join(RECORD);
    disk::write_with_parents(&path, record.render(all).as_bytes())
}

fn play_case(case: &FixCase, ralph: &Path) -> Result<RecordRow> {
    let result = fix_replay::replay(case, ralph)?;
    Ok(RecordRow::new(case, &result, &clock::local_date(clock::now_ms())))
}

fn select_cases<'a>(all: &'a [FixCase], options: &RealOptions) -> Result<Vec<&'a FixCase>> {
    for name in &options.names {
        if !all.iter().any(|case| case.package == *name) {
            bail!("there is no project `{name}`: see `cargo xtask real --list`");
        }
    }
    let is_selected = |case: &&FixCase| {
        let is_named = options.names.is_empty() || options.names.contains(&case.package);
        is_named && (case.in_ci || !options.ci)
    };
    Ok(all.iter().filter(is_selected).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fix that was added to the tables is recorded too, with the status that it deserves.
    #[test]
    fn the_record_has_every_fix() {
        let record = read_record();
        let missing: Vec<_> = fix_table::load_cases()
            .unwrap()
            .iter()
            .filter(|case| !record.has(case))
            .map(FixCase::label)
            .collect();
        assert_eq!(missing, Vec::<String>::new(), "run `cargo xtask real` with their names");
    }
}
