//! Output to stdout and stderr, and answers to yes/no questions. No other module prints.

use crate::failure::CommandFailure;
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use ralph_core::text;
use ralph_sys::env::Env;
use std::ffi::OsString;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();

/// The longest answer to a question that is read.
const MAX_ANSWER_BYTES: u64 = 4096;
const MAX_SHOWN_ANSWER: usize = 20;
/// How often a question is asked whose answers mean nothing.
const MAX_QUESTIONS: usize = 5;

/// The width of a terminal that does not report it.
const DEFAULT_COLUMNS: usize = 80;
const DEFAULT_ROWS: usize = 24;

/// When output is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// At a terminal, unless `NO_COLOR`, `CLICOLOR` or `TERM` say otherwise
    #[default]
    Auto,
    Always,
    Never,
}

impl ColorWhen {
    const OPTION: &str = "--color";

    /// The value on a command line that is not parsed yet, so that errors about it have the right colour too.
    pub(crate) fn find(words: &[OsString]) -> Self {
        let own = words.iter().take_while(|word| *word != "--");
        let mut own = own.map(|word| word.to_string_lossy());
        while let Some(word) = own.next() {
            let value = match word.strip_prefix(Self::OPTION) {
                Some("") => own.next(),
                Some(value) => value.strip_prefix('=').map(|value| value.to_string().into()),
                None => continue,
            };
            // clap reports an unknown value.
            return value.and_then(|value| Self::from_str(&value, false).ok()).unwrap_or_default();
        }
        Self::Auto
    }

    /// The words without the option at their beginning.
    pub(crate) fn without_option(words: &[OsString]) -> &[OsString] {
        match words {
            [option, _, rest @ ..] if option == Self::OPTION => rest,
            [option, rest @ ..] if option.to_string_lossy().starts_with("--color=") => rest,
            _ => words,
        }
    }
}

/// Sets when [`out`] and [`err`] keep the styles of [`paint`].
pub(crate) fn choose_color(when: ColorWhen) {
    let choice = match when {
        ColorWhen::Auto => anstream::ColorChoice::Auto,
        ColorWhen::Always => anstream::ColorChoice::Always,
        ColorWhen::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// Whether stdout still has a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputReader {
    Open,
    Closed,
}

/// Prints to stdout, without colour for pipes and with `NO_COLOR`. A closed pipe is not an error; a full disk is.
pub(crate) fn out(text: &str) -> Result<OutputReader, CommandFailure> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(OutputReader::Open),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(OutputReader::Closed),
        Err(error) => Err(CommandFailure::caused_by("cannot write the output", &error)),
    }
}

pub(crate) fn err(text: &str) {
    drop(anstream::stderr().lock().write_all(text.as_bytes()));
}

/// Whether the person answers the question that was just printed with `y` or `yes`. An answer that is neither yes nor no
/// is asked for again.
pub(crate) fn is_confirmed() -> std::io::Result<bool> {
    for _ in 0..MAX_QUESTIONS {
        match read_answer()?.to_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "" | "n" | "no" => return Ok(false),
            _ => drop(out("please answer y or n: ")),
        }
    }
    Ok(false)
}

/// Whether the person answers the question that was just printed with `y`, `yes` or an empty line. The end of the input is
/// a no; any other answer is asked for again.
pub(crate) fn is_accepted() -> bool {
    for _ in 0..MAX_QUESTIONS {
        match read_answer().map(|answer| answer.to_lowercase()).as_deref() {
            Ok("" | "y" | "yes") => return true,
            Ok("n" | "no") | Err(_) => return false,
            Ok(_) => drop(out("please answer y or n: ")),
        }
    }
    false
}

/// Asks until the answer is the first letter or the whole word of a choice. `None` for an empty answer, for `n`, at the
/// end of the input, and after too many other answers.
pub(crate) fn ask_for_choice<T: Copy>(
    question: &str,
    choices: &[(&str, T)],
) -> Result<Option<T>, CommandFailure> {
    for _ in 0..MAX_QUESTIONS {
        out(question)?;
        let answer = read_answer().unwrap_or_default().to_lowercase();
        if matches!(answer.as_str(), "" | "n" | "no") {
            return Ok(None);
        }
        let is_meant = |word: &str| word == answer || word.get(..1) == Some(answer.as_str());
        if let Some((_, choice)) = choices.iter().find(|(word, _)| is_meant(word)) {
            return Ok(Some(*choice));
        }
        let letters: Vec<_> = choices.iter().filter_map(|(word, _)| word.get(..1)).collect();
        let shown = text::clean_line(&answer, MAX_SHOWN_ANSWER);
        out(&format!("`{shown}` is not an answer; type {} or n\n", letters.join(", ")))?;
    }
    Ok(None)
}

/// The line that the person types after a question. The end of the input is an error.
pub(crate) fn read_answer() -> std::io::Result<String> {
    use std::io::{BufRead, Read};
    let mut answer = String::new();
    let length = std::io::stdin().lock().take(MAX_ANSWER_BYTES).read_line(&mut answer)?;
    if length == 0 {
        // The cursor is still behind the question.
        drop(out("\n"));
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer.trim().to_string())
}

/// Whether a person can be asked: the question and the answer are at a terminal.
pub(crate) fn can_ask() -> bool {
    use std::io::IsTerminal;
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Redraws the last `lines` lines on stderr. Writes the cursor movement directly, because `anstream` would strip it
/// with `NO_COLOR`.
pub(crate) fn redraw(lines: usize, text: &str) {
    if lines > 0 {
        drop(write!(std::io::stderr().lock(), "\x1b[{lines}A\r\x1b[J"));
    }
    err(text);
}

/// The alternate screen of the terminal on stdout. The main screen returns when it is dropped.
pub(crate) struct AlternateScreen(());

impl AlternateScreen {
    pub(crate) fn enter() -> Self {
        write_bytes(b"", b"\x1b[?1049h");
        Self(())
    }

    /// Replaces everything on the screen with lines that fit, as [`screen_text`] makes them.
    pub(crate) fn draw(&self, text: &str) {
        let Self(()) = self;
        // Written directly, because `anstream` would strip it with `NO_COLOR`.
        write_bytes(b"", b"\x1b[H\x1b[2J");
        drop(out(text));
    }
}

impl Drop for AlternateScreen {
    fn drop(&mut self) {
        write_bytes(b"", b"\x1b[?1049l");
    }
}

/// Writes exactly these bytes, for a host. stderr, with the reason, goes first: a host may act as soon as stdout ends.
/// Returns `false` if not all bytes could be written.
pub(crate) fn write_bytes(stderr: &[u8], stdout: &[u8]) -> bool {
    let mut is_written = true;
    if !stderr.is_empty() {
        is_written &= std::io::stderr().lock().write_all(stderr).is_ok();
    }
    if !stdout.is_empty() {
        let mut out = std::io::stdout().lock();
        is_written &= out.write_all(stdout).and_then(|()| out.flush()).is_ok();
    }
    is_written
}

/// Whether the process renders without styles, because its text goes to a host and not to a terminal.
static IS_PLAIN: AtomicBool = AtomicBool::new(false);

/// Renders everything without styles from now on.
pub(crate) fn use_plain_text() {
    IS_PLAIN.store(true, Ordering::Relaxed);
}

pub(crate) fn is_plain_text() -> bool {
    IS_PLAIN.load(Ordering::Relaxed)
}

/// `text` in `style`, for [`out`] and [`err`]; the text alone after [`use_plain_text`].
pub(crate) fn paint(style: Style, text: &str) -> String {
    if is_plain_text() { text.to_string() } else { format!("{style}{text}{style:#}") }
}

/// Removes the styles that [`paint`] added.
#[cfg(test)]
pub(crate) fn strip_styles(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// Whether stdout and stderr are a terminal whose cursor can be moved.
pub(crate) fn is_watched(env: &Env) -> bool {
    use std::io::IsTerminal;
    env.can_move_cursor() && std::io::stderr().is_terminal() && std::io::stdout().is_terminal()
}

/// Whether stdout is a terminal.
pub(crate) fn is_terminal() -> bool {
    use std::io::IsTerminal;
    std::io::stdout().is_terminal()
}

/// Whether stderr is a terminal, so that a person sees what is written there at once.
pub(crate) fn is_error_terminal() -> bool {
    use std::io::IsTerminal;
    std::io::stderr().is_terminal()
}

/// The width of the terminal on stderr.
pub(crate) fn columns() -> usize {
    ralph_sys::stdio::terminal_columns().unwrap_or(DEFAULT_COLUMNS)
}

/// The width at which lines of text are broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextWidth {
    Columns(usize),
    /// Lines stay whole in pipes and files, so that commands and paths can be copied from them.
    Unlimited,
}

impl TextWidth {
    /// The width of the terminal, but at most `most`.
    pub(crate) fn of_stdout(most: usize) -> Self {
        if is_terminal() { Self::Columns(columns().min(most)) } else { Self::Unlimited }
    }
}

/// Cuts a line to `columns`, so that it does not wrap. The styles of [`paint`] take no room and are kept.
pub(crate) fn fit(line: &str, columns: usize) -> String {
    let mut out = String::with_capacity(line.len());
    let mut room = columns;
    let mut is_escape = false;
    for char in line.chars() {
        is_escape |= char == '\x1b';
        if is_escape {
            out.push(char);
            is_escape = char != 'm';
        } else if let Some(left) = room.checked_sub(width(char)) {
            out.push(char);
            room = left;
        } else {
            room = 0;
        }
    }
    out
}

/// Breaks a line at spaces. Keeps the number of spaces between two words on the same line.
pub(crate) fn wrap(line: &str, columns: usize, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    let mut room = columns;
    let mut gap = 0;
    for word in line.split(' ') {
        if word.is_empty() {
            gap += 1;
            continue;
        }
        let is_first = current.trim_start().is_empty();
        if gap + text_width(word) <= room || is_first {
            current.push_str(&" ".repeat(gap));
            room = room.saturating_sub(gap + text_width(word));
        } else {
            lines.push(std::mem::replace(&mut current, " ".repeat(indent)));
            room = columns.saturating_sub(indent + text_width(word));
        }
        current.push_str(word);
        gap = 1;
    }
    lines.push(current);
    lines
}

/// Prints to stdout; on a terminal, lines that are too wide are broken at spaces and continued with `indent`.
pub(crate) fn out_wrapped(text: &str, indent: usize) -> Result<OutputReader, CommandFailure> {
    if is_terminal() { out(&wrap_lines(text, columns(), indent)) } else { out(text) }
}

/// Like [`out_wrapped`], but only if the terminal reports its width: commands and paths are not broken on a guess.
pub(crate) fn out_fitted(text: &str, indent: usize) -> Result<OutputReader, CommandFailure> {
    let known = ralph_sys::stdio::terminal_columns().filter(|_| is_terminal());
    known.map_or_else(|| out(text), |columns| out(&wrap_lines(text, columns, indent)))
}

/// The beginning of a text, as much as fits on the terminal: its lines are broken at spaces and continued with `indent`.
pub(crate) fn screen_text(text: &str, indent: usize) -> String {
    let size = ralph_sys::terminal::terminal_size();
    let size = size.map(|(columns, rows)| (usize::from(columns), usize::from(rows)));
    let (columns, rows) = size.unwrap_or((DEFAULT_COLUMNS, DEFAULT_ROWS));
    first_screen(&wrap_lines(text, columns, indent), columns, rows)
}

/// The first lines of a text, and how many more there are. No newline at the end, which would scroll a full screen.
fn first_screen(text: &str, columns: usize, rows: usize) -> String {
    let mut lines: Vec<String> = text.lines().map(|line| fit(line, columns)).collect();
    if lines.len() > rows {
        let shown = rows.saturating_sub(1);
        let more = format!("and {} more lines; `ralph watch` scrolls", lines.len() - shown);
        lines.truncate(shown);
        lines.push(paint(DIM, &fit(&more, columns)));
    }
    lines.join("\n")
}

fn wrap_lines(text: &str, columns: usize, indent: usize) -> String {
    let lines = text.lines().flat_map(|line| {
        let own = line.len() - line.trim_start().len();
        wrap(line, columns, indent.max(own + 2))
    });
    lines.map(|line| line + "\n").collect()
}

/// The columns of a text. The styles of [`paint`] take no room.
pub(crate) fn text_width(text: &str) -> usize {
    let mut is_escape = false;
    let widths = text.chars().map(|char| {
        is_escape |= char == '\x1b';
        let columns = if is_escape { 0 } else { width(char) };
        is_escape &= char != 'm';
        columns
    });
    widths.sum()
}

/// The columns of a character: 2 for every one that may take two, except the signs that ralph prints itself.
fn width(char: char) -> usize {
    match char {
        '\0'..'\u{1100}' | '\u{2000}'..'\u{2600}' | '✓' | '✗' => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_line_continues_below_itself() {
        let text = "12:00:00  held  one two three four\n          ✓ a change, policy, tools\n";
        insta::assert_snapshot!(wrap_lines(text, 24, 10), @"
        12:00:00  held  one two
                  three four
                  ✓ a change,
                    policy,
                    tools
        ");
    }

    #[test]
    fn a_screen_begins_with_the_first_line() {
        let text = "one\ntwo\nthree is wide\nfour\n";
        assert_eq!(first_screen(text, 80, 4), "one\ntwo\nthree is wide\nfour");
        let cut = anstream::adapter::strip_str(&first_screen(text, 8, 3)).to_string();
        assert_eq!(cut, "one\ntwo\nand 2 mo");
        let cut = anstream::adapter::strip_str(&first_screen(text, 40, 3)).to_string();
        assert_eq!(cut, "one\ntwo\nand 2 more lines; `ralph watch` scrolls");
    }
}
