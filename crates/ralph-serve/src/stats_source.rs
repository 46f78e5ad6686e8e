//! Reads the figures over all runs: the stats, and the metrics for a scraper.

use crate::history_source::REFRESH_TIMEOUT;
use crate::query::query_field;
use crate::server_state::ServerState;
use axum::http::Uri;
use ralph_core::gate::shell_quote;
use ralph_core::limits::LimitUnit;
use ralph_core::text;
use ralph_deck::IndexCoverage;
use ralph_deck::page::metrics::{metric_families, prometheus_text};
use ralph_deck::page::stats::{self, StatsPage, StatsScope};
use ralph_deck::stats_source::{self, StatsData};
use ralph_hook::project_scope::ProjectScope;
use ralph_sys::clock::{self, Deadline};
use std::collections::BTreeSet;
use std::path::Path;

const LONGEST_SINCE: usize = 40;
const LONGEST_PROJECT: usize = 1_000;

/// Which runs stats are asked for, as the address has it. An empty field stands for all.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatsQuery {
    pub(crate) project: String,
    pub(crate) since: String,
}

impl StatsQuery {
    pub(crate) fn of_request(uri: &Uri) -> Self {
        let since = query_field(uri, "since").unwrap_or_default();
        Self {
            project: query_field(uri, "project").unwrap_or_default(),
            since: text::clean_line(&since, LONGEST_SINCE),
        }
    }
}

/// A part of a query that has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatsMistake {
    Project,
    Since,
}

impl StatsMistake {
    pub(crate) fn hint(self) -> &'static str {
        match self {
            Self::Project => {
                "no single project with runs has this path or name; use the `project` of a row"
            }
            Self::Since => "not a duration; write `since=30d`",
        }
    }
}

/// What a query finds, and the projects to choose from.
#[derive(Debug)]
pub(crate) struct StatsAnswer {
    pub(crate) query: StatsQuery,
    pub(crate) projects: Vec<String>,
    pub(crate) figures: Result<LoadedStats, StatsMistake>,
}

/// The stats over the runs of a query.
#[derive(Debug)]
pub(crate) struct LoadedStats {
    pub(crate) page: StatsPage,
    /// Whether every journal was read in time.
    pub(crate) coverage: IndexCoverage,
    /// The command with the same figures.
    pub(crate) command: String,
}

pub(crate) fn load_stats(state: &ServerState, mut query: StatsQuery) -> Option<StatsAnswer> {
    let deadline = Deadline::after(REFRESH_TIMEOUT);
    let (rows, coverage) = stats_source::load_rows(&state.home, &deadline).ok()?;
    let projects = stats_source::projects_with_runs(&rows, None);
    if let Some(known) = find_project(&query.project, &projects) {
        query.project = known.to_string();
    }
    let figures = match check_query(&query, &projects) {
        Ok((project, ago_ms)) => {
            let loaded = StatsData::load(&state.home, &rows, project.as_ref()).ok()?;
            let command = stats_command(project.as_ref(), ago_ms);
            let now_ms = clock::now_ms();
            let root = project.map(|project| project.root().to_string_lossy().into_owned());
            let scope = StatsScope {
                project: root.map(|root| text::clean_line(&root, LONGEST_PROJECT)),
                since_ms: ago_ms.map(|ago_ms| now_ms.saturating_sub(ago_ms)),
                week: None,
            };
            let StatsData { rows, settings, applied } = loaded;
            let page = stats::stats_page(rows, scope, &settings, &applied, now_ms);
            Ok(LoadedStats { page, coverage, command })
        }
        Err(mistake) => Err(mistake),
    };
    Some(StatsAnswer { query, projects: projects.into_iter().collect(), figures })
}

/// The project and the duration of a query. A project is one that runs name, and never a path to look at.
fn check_query(
    query: &StatsQuery,
    projects: &BTreeSet<String>,
) -> Result<(Option<ProjectScope>, Option<u64>), StatsMistake> {
    let project = match query.project.as_str() {
        "" => None,
        known if projects.contains(known) => Some(ProjectScope::of_directory(Path::new(known))),
        _ => return Err(StatsMistake::Project),
    };
    let since = match query.since.as_str() {
        "" => None,
        since => Some(LimitUnit::Milliseconds.parse(since).ok_or(StatsMistake::Since)?),
    };
    Ok((project, since))
}

/// The project of a directory, or the only one whose directory has this name.
fn find_project<'a>(given: &str, projects: &'a BTreeSet<String>) -> Option<&'a str> {
    if let Some(known) = projects.get(given) {
        return Some(known);
    }
    let mut named = projects
        .iter()
        .filter(|known| Path::new(known).file_name().is_some_and(|name| name == given));
    named.next().filter(|_| named.next().is_none()).map(String::as_str)
}

fn stats_command(project: Option<&ProjectScope>, ago_ms: Option<u64>) -> String {
    let mut command = "ralph stats".to_string();
    match project {
        Some(project) => {
            let root = text::clean_line(&project.root().to_string_lossy(), LONGEST_PROJECT);
            command.push_str(&format!(" --project {}", shell_quote(&root)));
        }
        None => command.push_str(" --all"),
    }
    if let Some(ago_ms) = ago_ms {
        command.push_str(&format!(" --since {}s", ago_ms / 1000));
    }
    command
}

/// The metrics as text, and whether every journal was read in time.
pub(crate) fn load_metrics(state: &ServerState) -> Option<(String, IndexCoverage)> {
    let deadline = Deadline::after(REFRESH_TIMEOUT);
    let (rows, coverage) = stats_source::load_rows(&state.home, &deadline).ok()?;
    Some((prometheus_text(&metric_families(rows)), coverage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_found_by_its_directory_and_by_a_name_that_is_unique() {
        let known = ["/srv/api", "/srv/old/shop", "/srv/shop"].map(str::to_string);
        let projects = BTreeSet::from(known);
        let given = ["/srv/shop", "api", "shop", "srv", "old/shop", "..", "", "/etc"];
        let found = given.map(|given| find_project(given, &projects));
        let nothing = None;
        let expected = [Some("/srv/shop"), Some("/srv/api"), nothing, nothing, nothing, nothing];
        assert_eq!(found[..6], expected);
        assert_eq!(found[6..], [nothing, nothing]);
    }
}
