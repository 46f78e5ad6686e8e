//! The lines of the board: the runs that wait for a person, those that are working, and those that ended.

use crate::action_keys::action_keys;
use crate::duration_text::{cents, cost_note, cost_sign, since_time};
use crate::glyphs::GlyphSet;
use crate::layout::board_row_lines::RowLines;
use crate::layout::run_layout::FULL_COLUMNS;
use crate::palette::TextInk;
use crate::screen_line::{ScreenLayout, ScreenLine};
use crate::watch_state::{BoardSort, EarlierRuns, WatchState};
use ralph_core::text::count_noun;
use ralph_core::units::format_usd;
use ralph_deck::page::{Attention, BoardPage, BoardQueue, BoardRow};
use ralph_deck::run_index::RunFilter;

/// Below this the title of a run has a line of its own.
pub(crate) const WIDE_COLUMNS: usize = 80;
/// Below this, blank lines and the second lines of runs that are not selected are left out.
const FULL_ROWS: usize = 24;
/// From here on every run has its second lines.
const SPACIOUS_ROWS: usize = 36;
/// The lines that the problem of a filter may take.
const LONGEST_PROBLEM_LINES: usize = 5;
/// How many problems are listed.
const MAX_PROBLEMS: usize = 5;

/// How much room the lines of a run have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowDensity {
    Tight,
    Normal,
    Spacious,
}

impl RowDensity {
    pub(crate) fn of_rows(rows: usize) -> Self {
        match rows {
            0..FULL_ROWS => Self::Tight,
            FULL_ROWS..SPACIOUS_ROWS => Self::Normal,
            _ => Self::Spacious,
        }
    }
}

/// The board as it is shown: grouped, sorted and filtered.
pub(crate) fn board_layout(state: &WatchState, glyphs: GlyphSet) -> ScreenLayout {
    let query = RunFilter::parse_typed(state.filter_text(), state.now_ms);
    let is_flat = !query.is_empty() || state.earlier.is_some() || state.sort != BoardSort::NeedsYou;
    let mut layout = ScreenLayout { foot: board_foot(state, glyphs), ..ScreenLayout::default() };
    let density = RowDensity::of_rows(state.rows);
    layout.head.push(head_line(state, glyphs, &query));
    if state.columns >= WIDE_COLUMNS || density != RowDensity::Tight {
        layout.head.push(ScreenLine::blank());
    }
    layout.head.extend(state.filter_line(glyphs));
    layout.head.extend(problem_of_filter(state, glyphs));
    let mut lines = RowLines {
        columns: state.columns,
        now_ms: state.now_ms,
        time_text: state.time_text,
        density,
        glyphs,
        selected: state.board_position.selected.as_deref(),
        spare_question_lines: 0,
    };
    let body = |lines: &RowLines<'_>| {
        let mut body = Vec::new();
        if is_flat {
            flat_lines(state, &query, lines, &mut body);
        } else {
            grouped_lines(state, lines, &mut body);
        }
        body
    };
    layout.body = body(&lines);
    // The foot takes a row.
    let free = state.rows.saturating_sub(layout.head.len() + layout.body.len() + 1);
    let questions = if is_flat {
        flat_rows(state, &query).iter().filter(|row| row.question.is_some()).count()
    } else {
        state.board.waiting.iter().filter(|row| row.question.is_some()).count()
    };
    lines.spare_question_lines = free.checked_div(questions).unwrap_or(0);
    if lines.spare_question_lines > 0 {
        layout.body = body(&lines);
    }
    layout
}

/// The runs that match, in one list.
pub(crate) fn flat_rows<'a>(state: &'a WatchState, query: &RunFilter) -> Vec<&'a BoardRow> {
    let board = &state.board;
    let current = board.waiting.iter().chain(&board.working).chain(&board.ended);
    let earlier = state.earlier.as_ref().map(|earlier| earlier.rows.as_slice()).unwrap_or_default();
    // Only the index has the gates of the past.
    let is_found = |row: &BoardRow| earlier.iter().any(|found| found.run == row.run);
    let is_new = |row: &&BoardRow| !current.clone().any(|known| known.run == row.run);
    let matching = current.clone().filter(|row| query.matches(row) || is_found(row));
    let mut rows: Vec<_> = matching.chain(earlier.iter().filter(is_new)).collect();
    match state.sort {
        BoardSort::NeedsYou => {}
        BoardSort::Newest => rows.sort_by_key(|row| std::cmp::Reverse(row.last_ms)),
        BoardSort::Cost => rows.sort_by_key(|row| std::cmp::Reverse(row.spent_micro_usd)),
    }
    rows
}

/// Why the filter is not one. It is part of the head, where no selection scrolls it away.
fn problem_of_filter(state: &WatchState, glyphs: GlyphSet) -> Vec<ScreenLine> {
    let Some(problem) = &state.filter_problem else { return Vec::new() };
    let most = if state.rows < FULL_ROWS { 1 } else { LONGEST_PROBLEM_LINES };
    let texts = glyphs.wrap(problem, state.columns.saturating_sub(2), most);
    let lines = texts.into_iter().map(|text| ScreenLine::text(1, text, TextInk::Bad));
    lines.chain([ScreenLine::blank()]).collect()
}

fn flat_lines(
    state: &WatchState,
    query: &RunFilter,
    lines: &RowLines<'_>,
    body: &mut Vec<ScreenLine>,
) {
    let rows = flat_rows(state, query);
    if query.is_empty() {
        let title = match (&state.earlier, state.sort) {
            (_, BoardSort::Cost) => "RUNS BY COST",
            (Some(_), _) => "ALL RUNS",
            (None, _) => "RUNS, NEWEST FIRST",
        };
        body.push(lines.heading(title, true));
    }
    for row in &rows {
        body.extend(lines.run(row));
    }
    if rows.is_empty() && !query.is_empty() {
        body.push(ScreenLine::text(1, "no run matches", TextInk::Quiet));
    }
    if state.is_filtering() {
        body.push(ScreenLine::blank());
        for help in [
            "words match goal, project, run id and branch",
            "is:working is:waiting is:parked is:ended is:verified …   gate:clippy   >5usd",
            "since:7d   project:billing   and  -word  leaves out",
        ] {
            body.push(ScreenLine::text(2, help, TextInk::Quiet));
        }
    }
}

fn grouped_lines(state: &WatchState, lines: &RowLines<'_>, body: &mut Vec<ScreenLine>) {
    let board = &state.board;
    let mut groups: Vec<(String, Vec<ScreenLine>)> = Vec::new();
    let rows = |rows: &[BoardRow], left_out: usize| {
        let more = (left_out > 0).then(|| {
            let text = format!("and {left_out} more; `ralph status --all` lists them");
            ScreenLine::text(4, text, TextInk::Quiet)
        });
        rows.iter().flat_map(|row| lines.run(row)).chain(more).collect::<Vec<_>>()
    };
    if !board.waiting.is_empty() {
        groups.push(("WAITING FOR YOU".to_string(), rows(&board.waiting, board.waiting_left_out)));
    }
    let mut working = rows(&board.working, board.working_left_out);
    let open = board.queues.iter().filter(|queue| !queue.has_ended);
    working.extend(open.map(|queue| queue_line(queue, lines)));
    if !working.is_empty() {
        groups.push(("WORKING".to_string(), working));
    }
    if !board.ended.is_empty() {
        let since = match board.seen_ms {
            0 => "ENDED".to_string(),
            seen_ms => {
                let since = since_time(state.time_text, seen_ms, state.now_ms);
                format!("ENDED SINCE {}", since.to_uppercase())
            }
        };
        groups.push((since, rows(&board.ended, 0)));
    }
    let is_empty = groups.is_empty();
    for (number, (title, rows)) in groups.into_iter().enumerate() {
        if number > 0 && lines.density != RowDensity::Tight {
            body.extend(std::iter::repeat_n(ScreenLine::blank(), lines.group_gap()));
        }
        body.push(lines.heading(&title, number == 0));
        body.extend(rows);
    }
    if is_empty {
        let next = if state.is_board_loaded {
            "no runs yet; `ralph run \"goal\"` starts one"
        } else {
            "reading the runs"
        };
        body.push(ScreenLine::text(1, next, TextInk::Plain));
    }
    body.extend(problem_lines(board));
    if board.earlier > 0 {
        body.push(ScreenLine::blank());
        let count = thousands(board.earlier);
        let noun = if board.earlier == 1 { "run" } else { "runs" };
        body.push(ScreenLine::text(4, format!("earlier: {count} {noun}, press e"), TextInk::Quiet));
    }
}

/// Runs that cannot be read, and faults of ralph itself.
fn problem_lines(board: &BoardPage) -> Vec<ScreenLine> {
    let problems: Vec<_> = board.unreadable.iter().chain(&board.faults).collect();
    if problems.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![
        ScreenLine::blank(),
        ScreenLine::text(1, "UNREADABLE RUNS AND FAULTS", TextInk::Strong),
    ];
    let ink = TextInk::Attention(Attention::Broken);
    lines.extend(problems.iter().take(MAX_PROBLEMS).map(|text| ScreenLine::text(4, *text, ink)));
    let more = problems.len().saturating_sub(MAX_PROBLEMS);
    if more > 0 {
        lines.push(ScreenLine::text(4, format!("{more} more; `ralph status` lists them"), ink));
    }
    lines
}

fn queue_line(queue: &BoardQueue, lines: &RowLines<'_>) -> ScreenLine {
    let mark = if lines.glyphs == GlyphSet::Unicode { "≡" } else { "Q" };
    let parked = match queue.parked {
        0 => String::new(),
        parked => format!(", {parked} parked"),
    };
    let progress = format!("{} of {} landed{parked}", queue.landed, queue.tasks);
    let (columns, ink) = (lines.columns, TextInk::Attention(Attention::InProgress));
    let key = format!("queue {}", queue.id);
    let line = ScreenLine::default().with(1, 1, mark, ink);
    let line = if columns < WIDE_COLUMNS {
        line.with(3, columns.saturating_sub(12), format!("queue {}  {progress}", queue.name), ink)
    } else {
        line.with(3, 18, format!("queue {}", queue.name), ink)
            .with(22, columns.saturating_sub(52), progress, TextInk::Plain)
            .with(columns - 29, 12, &queue.project_name, TextInk::Plain)
    };
    let cost = cents(queue.spent_micro_usd);
    line.with_right(columns.saturating_sub(10), columns.saturating_sub(1), cost, TextInk::Plain)
        .of_item(&key)
}

fn head_line(state: &WatchState, glyphs: GlyphSet, query: &RunFilter) -> ScreenLine {
    let board = &state.board;
    let columns = state.columns;
    let is_narrow = columns < WIDE_COLUMNS;
    let counts = if query.is_empty() && state.earlier.is_none() {
        summary(state, glyphs, is_narrow)
    } else {
        let shown = flat_rows(state, query).len();
        let not_loaded = state.earlier.as_ref().map_or(0, EarlierRuns::not_loaded);
        let matching = u64::try_from(shown).unwrap_or(u64::MAX).saturating_add(not_loaded);
        let known = board.waiting.len() + board.working.len() + board.ended.len();
        let all = u64::try_from(known).unwrap_or(u64::MAX).saturating_add(board.earlier);
        let all = all.max(matching);
        let noun = if all == 1 { "run" } else { "runs" };
        format!("{} of {} {noun}", thousands(matching), thousands(all))
    };
    let (spent, basis) = (cents(board.spent_today_micro_usd), board.spent_today_basis);
    let (sign, note) = (cost_sign(basis), cost_note(basis));
    let spent = match (board.max_day_micro_usd, is_narrow) {
        (Some(most), false) => format!("{sign}{spent}{note} of {} today", format_usd(most)),
        (None, false) => format!("{sign}{spent}{note} today"),
        (_, true) => format!("{sign}{spent}"),
    };
    let start = if columns >= 120 { 9 } else { 8 };
    let end = columns.saturating_sub(1);
    let room = end.saturating_sub(start + spent.len() + 1);
    ScreenLine::default()
        .with(1, 5, "ralph", TextInk::Strong)
        .with(start, room, counts, TextInk::Plain)
        .with_right(start, end, spent, TextInk::Plain)
}

/// `3 wait for you · 3 working · 5 ended since 23:10`
pub(crate) fn summary(state: &WatchState, glyphs: GlyphSet, is_short: bool) -> String {
    let board = &state.board;
    if let Some(why) = &board.off {
        return format!("is switched off: {why}");
    }
    let queues = board.queues.iter().filter(|one| !one.has_ended).count();
    let working = board.working_count().saturating_add(queues);
    let (waiting, ended) = (board.waiting_count(), thousands(board.ended_total));
    let verb = if waiting == 1 { "waits" } else { "wait" };
    if is_short {
        return [
            format!("{waiting} {verb}"),
            format!("{working} working"),
            format!("{ended} ended"),
        ]
        .join(glyphs.separator());
    }
    let since = match board.seen_ms {
        0 => String::new(),
        seen_ms => {
            let since = since_time(state.time_text, seen_ms, state.now_ms);
            // A narrow line has room for a time of today only; the title of the group has the rest.
            let is_today = since == (state.time_text)(seen_ms);
            let is_shown = is_today || state.columns >= FULL_COLUMNS;
            if is_shown { format!(" since {since}") } else { String::new() }
        }
    };
    [
        format!("{waiting} {verb} for you"),
        format!("{working} working"),
        format!("{ended} ended{since}"),
    ]
    .join(glyphs.separator())
}

/// The keys that do something for the selected run, as many as there is room for.
fn selection_keys(state: &WatchState, glyphs: GlyphSet) -> String {
    let columns = state.columns;
    let most = match glyphs {
        _ if columns >= 120 => usize::MAX,
        GlyphSet::Unicode if columns >= WIDE_COLUMNS => 3,
        GlyphSet::Unicode | GlyphSet::Ascii => 1,
    };
    let keys = state.current_row().map(action_keys).unwrap_or_default();
    let keys: String = keys.iter().take(most).flat_map(|key| [*key, "  "]).collect();
    if columns >= 120 {
        format!("↑↓ move  enter open  {keys}/ filter  e earlier  ? help  q quit")
    } else if columns >= WIDE_COLUMNS {
        format!("↑↓ move  enter open  {keys}/ filter  ? help  q quit")
    } else {
        format!("enter open  {keys}? help  q quit")
    }
}

fn board_foot(state: &WatchState, glyphs: GlyphSet) -> ScreenLine {
    let columns = state.columns;
    let end = columns.saturating_sub(1);
    if let Some(line) = state.message_line() {
        return line;
    }
    let keys = if state.is_filtering() {
        "enter keep the filter   esc clear it   ↑↓ move".to_string()
    } else {
        selection_keys(state, glyphs)
    };
    let keys = if glyphs == GlyphSet::Ascii { keys.replace("↑↓", "up/down") } else { keys };
    let line = ScreenLine::default().with(1, end, keys, TextInk::Quiet);
    if !state.is_live {
        return ScreenLine::blank();
    }
    if state.is_filtering() || columns < WIDE_COLUMNS {
        return line;
    }
    line.with_right(columns.saturating_sub(6), end, "live", TextInk::Quiet)
}

/// `4,993`
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The board in one line, where there is no room for more.
pub(crate) fn one_line(state: &WatchState, glyphs: GlyphSet) -> ScreenLine {
    let waiting = &state.board.waiting;
    let text = match waiting.first() {
        Some(row) if state.columns >= 40 => {
            format!("{} {}: {}", row.run, row.standing.label(), summary(state, glyphs, true))
        }
        Some(_) | None => summary(state, glyphs, true),
    };
    let runs = count_noun(waiting.len() as u64, "run");
    let ink = if waiting.is_empty() {
        TextInk::Plain
    } else {
        TextInk::Attention(Attention::NeedsPerson)
    };
    let text = if state.columns < 24 { runs } else { text };
    ScreenLine::text(0, text, ink)
}
