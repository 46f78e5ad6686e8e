//! The filter of runs, as a person types it: `clippy is:parked -is:verified >5usd since:7d`. The index answers it, and a
//! screen applies it to the rows that it has.

use crate::page::BoardRow;
use ralph_core::status::RunStatus;
use ralph_core::units;
use ralph_sys::clock;
use rusqlite::types::Value;

/// More terms than this are ignored.
const MAX_TERMS: usize = 32;
const PHASES: [&str; 5] = ["active", "paused", "parked", "orphaned", "ended"];
const OPEN_STATUSES: [&str; 3] = ["working", "waiting", "asks"];
const OPERATORS: &str = "`is:`, `gate:`, `project:`, `since:`, `>5usd` and `<5usd`";

/// Which runs are shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFilter {
    terms: Vec<FilterTerm>,
    /// Only runs of these project directories.
    projects: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq)]
struct FilterTerm {
    leaves_out: bool,
    kind: TermKind,
}

#[derive(Clone, Debug, PartialEq)]
enum TermKind {
    /// In the title, the project, the id or the branch.
    Word(String),
    Phase(&'static str),
    Status(&'static str),
    Session,
    Gate(String),
    Project(String),
    /// Since 1970.
    Since(u64),
    MoreThan(u64),
    LessThan(u64),
}

/// A part of a filter that has no meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{term}` is not a filter; {hint}")]
pub struct FilterError {
    pub term: String,
    pub hint: String,
}

/// A condition on `run` and its parameters.
pub(super) struct FilterSql {
    pub condition: String,
    pub values: Vec<Value>,
}

impl RunFilter {
    /// `now_ms` is what `since:7d` counts back from.
    pub fn parse(text: &str, now_ms: u64) -> Result<Self, FilterError> {
        let mut terms = Vec::new();
        for word in split_words(text).into_iter().take(MAX_TERMS) {
            let rest = word.strip_prefix('-').filter(|rest| !rest.is_empty());
            let kind = parse_term(rest.unwrap_or(&word), now_ms)?;
            terms.push(FilterTerm { leaves_out: rest.is_some(), kind });
        }
        Ok(Self { terms, projects: None })
    }

    /// Leaves out terms without a meaning: while a filter is typed, its last term is not complete.
    pub fn parse_typed(text: &str, now_ms: u64) -> Self {
        let words = split_words(text);
        let terms = words.iter().filter_map(|word| Self::parse(word, now_ms).ok());
        let terms = terms.flat_map(|parsed| parsed.terms).take(MAX_TERMS).collect();
        Self { terms, projects: None }
    }

    /// Runs that ended with one of these statuses.
    pub fn with_statuses(statuses: &[RunStatus]) -> Self {
        let ended = FilterTerm { leaves_out: false, kind: TermKind::Phase("ended") };
        let statuses = statuses
            .iter()
            .map(|status| FilterTerm { leaves_out: false, kind: TermKind::Status(status.name()) });
        Self { terms: std::iter::once(ended).chain(statuses).collect(), projects: None }
    }

    /// Runs that have ended, since a time in milliseconds since 1970.
    pub fn ended_since(since_ms: u64) -> Self {
        let kinds = [TermKind::Phase("ended"), TermKind::Since(since_ms)];
        let terms = kinds.map(|kind| FilterTerm { leaves_out: false, kind }).to_vec();
        Self { terms, projects: None }
    }

    /// The same filter, limited to these project directories; all of them for `None`.
    #[must_use]
    pub fn within(self, projects: Option<&[String]>) -> Self {
        Self { projects: projects.map(<[_]>::to_vec), ..self }
    }

    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether a loaded row matches, as `sql` selects it. No row does if the filter names a gate: only the index
    /// has the gates of the past.
    pub fn matches(&self, row: &BoardRow) -> bool {
        let is_among = |is_kind: fn(&TermKind) -> bool| {
            let mut wanted =
                self.terms.iter().filter(|term| !term.leaves_out && is_kind(&term.kind)).peekable();
            wanted.peek().is_none() || wanted.any(|term| term.kind.matches(row))
        };
        let mut others = self.terms.iter().filter(|term| term.leaves_out || !term.kind.is_state());
        !self.terms.iter().any(|term| matches!(term.kind, TermKind::Gate(_)))
            && is_among(|kind| matches!(kind, TermKind::Phase(_)))
            && is_among(|kind| matches!(kind, TermKind::Status(_)))
            && is_among(|kind| matches!(kind, TermKind::Session))
            && others.all(|term| term.kind.matches(row) != term.leaves_out)
    }

    /// Terms of the same kind of state are alternatives; all others must hold together.
    pub(super) fn sql(&self) -> FilterSql {
        let mut sql = FilterSql { condition: "1".to_string(), values: Vec::new() };
        let is_wanted = |term: &&FilterTerm| !term.leaves_out;
        let wanted = || self.terms.iter().filter(is_wanted).map(|term| &term.kind);
        let phases: Vec<_> = wanted().filter_map(TermKind::phase).collect();
        let statuses: Vec<_> = wanted().filter_map(TermKind::status).collect();
        let wants_sessions = wanted().any(|kind| *kind == TermKind::Session);
        if self.terms.is_empty() {
            sql.condition.push_str(" AND phase = 'ended'");
        }
        sql.add_alternatives("phase", &phases);
        sql.add_alternatives("status", &statuses);
        let origin = if wants_sessions { "=" } else { "<>" };
        sql.condition.push_str(&format!(" AND origin {origin} 'session'"));
        if let Some(projects) = &self.projects {
            let marks = vec!["?"; projects.len()].join(", ");
            sql.condition.push_str(&format!(" AND project IN ({marks})"));
            sql.values.extend(projects.iter().map(|project| Value::from(project.clone())));
        }
        for FilterTerm { leaves_out, kind } in &self.terms {
            if *leaves_out || !kind.is_state() {
                sql.add_term(kind, *leaves_out);
            }
        }
        sql
    }
}

impl TermKind {
    fn phase(&self) -> Option<&'static str> {
        if let Self::Phase(phase) = self { Some(phase) } else { None }
    }

    fn status(&self) -> Option<&'static str> {
        if let Self::Status(status) = self { Some(status) } else { None }
    }

    fn matches(&self, row: &BoardRow) -> bool {
        let has = |text: &str, word: &str| {
            text.to_lowercase().contains(&word.trim_matches('"').to_lowercase())
        };
        match self {
            Self::Word(word) => {
                let branch = row.branch.as_deref().unwrap_or_default();
                [&row.title, &row.project, &row.run, branch].iter().any(|text| has(text, word))
            }
            Self::Phase(phase) => row.standing.phase_name() == *phase,
            Self::Status(status) => row.standing.status_name() == *status,
            Self::Session | Self::Gate(_) => false,
            Self::Project(project) => has(&row.project, project),
            Self::Since(since_ms) => row.last_ms >= *since_ms,
            Self::MoreThan(micro_usd) => {
                row.spent_micro_usd.is_some_and(|spent| spent > *micro_usd)
            }
            Self::LessThan(micro_usd) => {
                row.spent_micro_usd.is_some_and(|spent| spent < *micro_usd)
            }
        }
    }

    fn is_state(&self) -> bool {
        matches!(self, Self::Phase(_) | Self::Status(_) | Self::Session)
    }
}

impl FilterSql {
    fn add_alternatives(&mut self, column: &str, values: &[&'static str]) {
        if !values.is_empty() {
            let marks = vec!["?"; values.len()].join(", ");
            self.condition.push_str(&format!(" AND {column} IN ({marks})"));
            self.values.extend(values.iter().map(|value| Value::from((*value).to_string())));
        }
    }

    fn add_term(&mut self, kind: &TermKind, leaves_out: bool) {
        let (condition, values) = kind.condition();
        let not = if leaves_out { "NOT " } else { "" };
        self.condition.push_str(&format!(" AND {not}coalesce({condition}, 0)"));
        self.values.extend(values);
    }
}

impl TermKind {
    fn condition(&self) -> (&'static str, Vec<Value>) {
        let text = |text: &str| Value::from(text.to_string());
        let number = |number: u64| Value::from(number.cast_signed());
        match self {
            Self::Word(word) => {
                let pattern = Value::from(contains_pattern(word));
                let condition = r"(title LIKE ? ESCAPE '\' OR project LIKE ? ESCAPE '\'
                    OR id LIKE ? ESCAPE '\' OR coalesce(branch, '') LIKE ? ESCAPE '\')";
                (condition, vec![pattern; 4])
            }
            Self::Phase(phase) => ("phase = ?", vec![text(phase)]),
            Self::Status(status) => ("status = ?", vec![text(status)]),
            Self::Session => ("origin = 'session'", Vec::new()),
            Self::Gate(gate) => {
                let condition = r"(id IN (SELECT run FROM run_requirement WHERE name = ? AND open_stops > 0)
                    OR id IN (SELECT run FROM run_gate WHERE name = ? AND failed + no_result > 0))";
                (condition, vec![text(gate); 2])
            }
            Self::Project(project) => {
                (r"project LIKE ? ESCAPE '\'", vec![Value::from(contains_pattern(project))])
            }
            Self::Since(since_ms) => ("last_ms >= ?", vec![number(*since_ms)]),
            Self::MoreThan(micro_usd) => ("micro_usd > ?", vec![number(*micro_usd)]),
            Self::LessThan(micro_usd) => ("micro_usd < ?", vec![number(*micro_usd)]),
        }
    }
}

fn parse_term(word: &str, now_ms: u64) -> Result<TermKind, FilterError> {
    let error = |hint: &str| FilterError { term: word.to_string(), hint: hint.to_string() };
    if let Some(amount) = word.strip_prefix(['>', '<']) {
        let amount = amount.strip_suffix("usd").unwrap_or(amount).trim_start_matches('$');
        let amount = units::parse_micro_usd(amount).ok_or_else(|| error("write `>5usd`"))?;
        let is_more = word.starts_with('>');
        return Ok(if is_more { TermKind::MoreThan(amount) } else { TermKind::LessThan(amount) });
    }
    let Some((name, value)) = word.split_once(':').filter(|(name, _)| is_operator(name)) else {
        return Ok(TermKind::Word(word.to_string()));
    };
    if value.is_empty() {
        return Err(error("the part after the colon is missing"));
    }
    match name {
        "is" => parse_state(value).ok_or_else(|| error(&state_hint())),
        "gate" => Ok(TermKind::Gate(value.to_string())),
        "project" => Ok(TermKind::Project(value.to_string())),
        "since" => {
            let since_ms = match units::parse_duration(value) {
                Some(ago) => Some(now_ms.saturating_sub(ago)),
                None => clock::parse_timestamp_or_date(value).map(start_of_day),
            };
            let since_ms =
                since_ms.ok_or_else(|| error("write `since:7d` or `since:2026-11-15`"))?;
            Ok(TermKind::Since(since_ms))
        }
        _ => Err(error(&format!("there are {OPERATORS}; quote a word that contains a colon"))),
    }
}

/// A date stands for the end of its day, which is right for a deadline but not here.
fn start_of_day(end_ms: u64) -> u64 {
    const DAY_MS: u64 = 24 * 60 * 60 * 1000;
    if clock::local_second_of_day(end_ms) == 0 { end_ms.saturating_sub(DAY_MS) } else { end_ms }
}

/// `fix: tests` is a word with a colon, `stauts:x` a mistyped operator.
fn is_operator(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase())
}

fn parse_state(value: &str) -> Option<TermKind> {
    let phase = PHASES.into_iter().find(|phase| *phase == value).map(TermKind::Phase);
    let open = OPEN_STATUSES.into_iter().find(|status| *status == value);
    let status = open.or_else(|| RunStatus::parse(&value.replace('-', "_")).map(RunStatus::name));
    let session = (value == "session").then_some(TermKind::Session);
    phase.or(status.map(TermKind::Status)).or(session)
}

fn state_hint() -> String {
    let ended = RunStatus::ALL.map(RunStatus::name);
    let words: Vec<_> = OPEN_STATUSES.iter().chain(&PHASES).chain(&ended).copied().collect();
    format!("after `is:` comes one of: {}, session", words.join(", "))
}

fn contains_pattern(word: &str) -> String {
    let mut pattern = String::from("%");
    for character in word.trim_matches('"').chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}

/// Splits at spaces, except within double quotes. The quotes of a quoted word are kept, so that it is no operator.
fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut is_quoted = false;
    for character in text.chars() {
        if character == '"' {
            is_quoted = !is_quoted;
        }
        if character.is_whitespace() && !is_quoted {
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
        } else {
            word.push(character);
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words.retain(|word| !word.trim_matches('"').is_empty());
    words
}
