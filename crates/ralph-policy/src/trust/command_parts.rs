//! Splits the command of a gate into its simple commands, to tell the program that judges from the files that it judges.
//!
//! Only a shell can parse every shell line. What this does not understand stays one part, in which every word counts.
//! The time is linear in the length of the line, which is bounded: a policy comes from the repository.

use super::interpreter_options::takes_shell_text;
use super::shell_variables::TOPLEVEL_VARIABLE;
use super::work_arguments;
use ralph_core::gate::GateInvocation;
use ralph_gates::gates::simple_commands::SHELLS;
use std::iter::Peekable;
use std::str::Chars;

/// How deep substitutions and shells in shells are followed.
const MAX_DEPTH: usize = 8;
/// Longer lines are not split.
const MAX_LINE_BYTES: usize = 64 * 1024;
/// Lines with more commands are not split: a command can read the output of all those before it.
const MAX_COMMANDS: usize = 500;
/// Nor are those with a command of more words: a program can begin at each of them.
const MAX_COMMAND_WORDS: usize = 2000;

/// Stands for a file that a shell makes of the output of a command: `<(…)`.
pub(super) const PROCESS_FILE: &str = "$";

/// How a part was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PartKind {
    #[default]
    Command,
    /// The operands in `$((…))`, which execute nothing.
    Arithmetic,
    /// A line that could not be split, as one word.
    WholeLine,
    /// The same, because of its length.
    TooLong,
}

/// A simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandPart {
    /// Without quotes. A file that it writes to is not among them.
    pub(super) words: Vec<String>,
    /// Files that it writes to.
    pub(super) outputs: Vec<String>,
    /// A program that only compares text reads its output, and alone decides: `./greet | grep -q hello`.
    pub(super) is_compared: bool,
    /// The next command reads its output.
    pub(super) is_piped: bool,
    /// How many commands of the same line before it are in its pipeline, or in the group that it closes.
    pub(super) joined: usize,
    /// In how many substitutions and texts of shells it is.
    pub(super) depth: usize,
    pub(super) kind: PartKind,
}

impl CommandPart {
    fn new(words: Vec<String>) -> Self {
        Self { words, ..Self::default() }
    }
}

/// The commands whose output a command can read: the pipeline before it, or before the group that it is in.
pub(super) fn input_of(parts: &[CommandPart], at: usize) -> &[CommandPart] {
    let Some(last) = parts[..at].iter().rposition(|part| part.is_piped) else { return &[] };
    let depth = parts[last].depth;
    let mut before = (0..=last).rev().filter(|at| parts[*at].depth == depth);
    let first = before.nth(parts[last].joined).unwrap_or(0);
    &parts[first..at]
}

pub(super) fn gate_parts(command: &GateInvocation) -> Vec<CommandPart> {
    match command {
        GateInvocation::Argv(words) if words.len() > MAX_COMMAND_WORDS => {
            let kind = PartKind::TooLong;
            vec![CommandPart { kind, ..CommandPart::new(words.clone()) }]
        }
        GateInvocation::Argv(words) => {
            let mut budget = SplitBudget::default();
            expand_shell_texts(vec![CommandPart::new(words.clone())], 0, &mut budget)
        }
        GateInvocation::Shell(line) => line_parts(line),
    }
}

pub(super) fn line_parts(line: &str) -> Vec<CommandPart> {
    text_parts(line, 0)
}

/// The commands of a text, which a command of the given depth executes.
pub(super) fn text_parts(text: &str, depth: usize) -> Vec<CommandPart> {
    let mut budget = SplitBudget::default();
    split_line(text, depth, &mut budget).unwrap_or_else(|| {
        let whole = CommandPart::new(vec![text.to_string()]);
        let kind = if budget.is_spent { PartKind::TooLong } else { PartKind::WholeLine };
        vec![CommandPart { depth, kind, ..whole }]
    })
}

/// How much of a line was split, with everything in it that was split again.
#[derive(Debug, Default)]
struct SplitBudget {
    bytes: usize,
    commands: usize,
    /// The line has more than is allowed.
    is_spent: bool,
}

impl SplitBudget {
    /// `None` if that is more than a line may have.
    fn add(&mut self, line: &str) -> Option<()> {
        self.bytes = self.bytes.saturating_add(line.len());
        self.is_spent |= line.len() > MAX_LINE_BYTES;
        (!self.is_spent).then_some(())
    }

    fn add_commands(&mut self, commands: &[RawCommand]) -> Option<()> {
        self.commands = self.commands.saturating_add(commands.len());
        let has_many_words = |command: &RawCommand| command.words.len() > MAX_COMMAND_WORDS;
        self.is_spent |= self.commands > MAX_COMMANDS || commands.iter().any(has_many_words);
        (!self.is_spent).then_some(())
    }
}

/// `None` if the line has something that is not understood, or too much of it.
fn split_line(line: &str, depth: usize, budget: &mut SplitBudget) -> Option<Vec<CommandPart>> {
    budget.add(line)?;
    let mut splitter = LineSplitter {
        rest: line.chars().peekable(),
        depth,
        open: Vec::new(),
        commands: Vec::new(),
        budget: &mut *budget,
    };
    splitter.split()?;
    let commands = splitter.commands;
    budget.add_commands(&commands)?;
    let compared = compared_commands(&commands);
    let mut parts = Vec::new();
    let mut firsts: Vec<usize> = Vec::new();
    let piped: Vec<bool> = commands.iter().map(|command| command.is_piped).collect();
    for ((at, command), is_compared) in commands.into_iter().enumerate().zip(compared) {
        let own = if command.closes_keyword() { 0 } else { command.group_start.unwrap_or(at) };
        let own = own.min(at);
        let feeding = own.checked_sub(1).filter(|before| piped[*before]);
        let first = feeding.map_or(own, |before| firsts[before]);
        firsts.push(first);
        let decides = is_comparing(&command) || is_compared && is_filter(&command);
        let RawCommand { words, outputs, substitutions, is_piped, .. } = command;
        let joined = at.saturating_sub(first);
        let own = CommandPart::new(words);
        parts.push(CommandPart { outputs, is_compared, is_piped, joined, depth, ..own });
        parts.extend(substitutions.into_iter().map(|inner| {
            let is_compared = inner.is_compared || decides;
            CommandPart { is_compared, ..inner }
        }));
    }
    Some(expand_shell_texts(parts, depth, budget))
}

#[derive(Debug, Default)]
struct RawCommand {
    words: Vec<String>,
    outputs: Vec<String>,
    substitutions: Vec<CommandPart>,
    is_piped: bool,
    /// The first command of the group in parentheses that it is the last of.
    group_start: Option<usize>,
}

impl RawCommand {
    /// Whether it ends a loop or another compound command, whose beginning is not looked for.
    fn closes_keyword(&self) -> bool {
        self.words.first().is_some_and(|word| matches!(&**word, "done" | "fi" | "}"))
    }
}

/// For each command, whether a program that only compares reads its output, directly or through filters.
fn compared_commands(commands: &[RawCommand]) -> Vec<bool> {
    let mut compared = vec![false; commands.len()];
    for (at, pair) in commands.windows(2).enumerate().rev() {
        let [command, next] = pair else { continue };
        let is_judge = is_comparing(next) && !next.is_piped;
        compared[at] = command.is_piped && (is_judge || is_filter(next) && compared[at + 1]);
    }
    compared
}

fn is_comparing(command: &RawCommand) -> bool {
    work_arguments::command_name(&command.words).is_some_and(work_arguments::is_comparing_program)
}

fn is_filter(command: &RawCommand) -> bool {
    work_arguments::command_name(&command.words).is_some_and(work_arguments::is_text_filter)
}

/// Replaces the text after `sh -c` by the commands in it. Those of substitutions were replaced before.
fn expand_shell_texts(
    parts: Vec<CommandPart>,
    depth: usize,
    budget: &mut SplitBudget,
) -> Vec<CommandPart> {
    let mut expanded = Vec::new();
    for part in parts {
        let is_shell =
            work_arguments::command_name(&part.words).is_some_and(|name| SHELLS.contains(&name));
        let text = part.words.iter().position(|word| takes_shell_text(word)).map(|at| at + 1);
        let inner = text
            .filter(|_| is_shell && part.depth == depth && depth < MAX_DEPTH)
            .and_then(|at| Some((at, split_line(part.words.get(at)?, depth + 1, budget)?)));
        match inner {
            Some((at, inner)) => {
                let mut words = part.words.clone();
                words.remove(at);
                expanded.push(CommandPart { words, ..part });
                expanded.extend(inner);
            }
            None => expanded.push(part),
        }
    }
    expanded
}

/// Whether a flag such as `-c` or `-ec` means that the next word is the script itself.
pub(super) fn takes_script_text(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.ends_with('c')
}

struct LineSplitter<'a> {
    rest: Peekable<Chars<'a>>,
    depth: usize,
    /// For each open parenthesis, how many commands are before it.
    open: Vec<usize>,
    commands: Vec<RawCommand>,
    budget: &'a mut SplitBudget,
}

impl LineSplitter<'_> {
    fn split(&mut self) -> Option<()> {
        let mut command = RawCommand::default();
        let mut word: Option<String> = None;
        let mut is_output = false;
        while let Some(char) = self.rest.next() {
            match char {
                '\'' => take_until(&mut self.rest, '\'', word.get_or_insert_default())?,
                '"' => self.take_quoted(word.get_or_insert_default(), &mut command)?,
                '\\' => match self.rest.next()? {
                    '\n' => {}
                    next => word.get_or_insert_default().push(next),
                },
                '`' => {
                    let mut inner = String::new();
                    take_until(&mut self.rest, '`', &mut inner)?;
                    self.add_substitution(&inner, &mut command)?;
                    word.get_or_insert_default().push('`');
                }
                '$' if self.rest.peek() == Some(&'(') => {
                    let output = self.take_substitution(&mut command)?;
                    word.get_or_insert_default().push_str(&output);
                }
                '$' if self.rest.peek() == Some(&'{') => {
                    let mut braced = String::from("$");
                    take_until(&mut self.rest, '}', &mut braced)?;
                    // `${x:-$(command)}`
                    if braced.contains("$(") || braced.contains('`') {
                        return None;
                    }
                    braced.push('}');
                    word.get_or_insert_default().push_str(&braced);
                }
                '#' if word.is_none() => while self.rest.next_if(|next| *next != '\n').is_some() {},
                '<' | '>' if self.rest.peek() == Some(&'(') => {
                    self.take_substitution(&mut command)?;
                    word.get_or_insert_default().push_str(PROCESS_FILE);
                }
                '<' => {
                    end_word(&mut word, &mut command, &mut is_output);
                    // A here-document; `<<<` is a text, which counts as a word.
                    if self.rest.next_if_eq(&'<').is_some() && self.rest.next_if_eq(&'<').is_none()
                    {
                        return None;
                    }
                }
                '>' => {
                    // `2>` is not a word.
                    if word.as_ref().is_some_and(|word| word.bytes().all(|it| it.is_ascii_digit()))
                    {
                        word = None;
                    }
                    end_word(&mut word, &mut command, &mut is_output);
                    while self.rest.next_if(|next| ">&|".contains(*next)).is_some() {}
                    is_output = true;
                }
                '&' if self.rest.peek() == Some(&'>') => {}
                ' ' | '\t' | '\r' => end_word(&mut word, &mut command, &mut is_output),
                // A pattern such as `@(a|b)`, or an array. `f()` begins a function.
                '(' if word.is_some() && self.rest.peek() != Some(&')') => return None,
                ';' | '&' | '|' | '\n' | '(' | ')' => {
                    end_word(&mut word, &mut command, &mut is_output);
                    self.take_separator(char, &mut command)?;
                }
                char => word.get_or_insert_default().push(char),
            }
        }
        end_word(&mut word, &mut command, &mut is_output);
        self.end_command(&mut command, false);
        self.open.is_empty().then_some(())
    }

    fn take_separator(&mut self, char: char, command: &mut RawCommand) -> Option<()> {
        let is_doubled = self.rest.next_if_eq(&char).is_some();
        match char {
            // A pattern of `case`.
            ';' if is_doubled => return None,
            _ => {}
        }
        let is_pipe = char == '|' && !is_doubled;
        if is_pipe {
            self.rest.next_if_eq(&'&');
        }
        self.end_command(command, is_pipe);
        for _ in 0..=usize::from(is_doubled) {
            match char {
                '(' => self.open.push(self.commands.len()),
                ')' => {
                    let start = self.open.pop()?;
                    // Nothing is in the parentheses of `f() { a; }`.
                    let is_empty = start >= self.commands.len();
                    if let Some(last) = self.commands.last_mut().filter(|_| !is_empty) {
                        last.group_start = Some(start);
                    }
                }
                _ => {}
            }
        }
        Some(())
    }

    fn end_command(&mut self, command: &mut RawCommand, is_piped: bool) {
        if command.words.is_empty() && command.substitutions.is_empty() {
            // `(…) |`
            if let Some(last) = self.commands.last_mut() {
                last.is_piped |= is_piped;
            }
            return;
        }
        let ended = std::mem::take(command);
        self.commands.push(RawCommand { is_piped, ..ended });
    }

    /// Text in double quotes, in which substitutions count.
    fn take_quoted(&mut self, word: &mut String, command: &mut RawCommand) -> Option<()> {
        loop {
            match self.rest.next()? {
                '"' => return Some(()),
                '\\' => word.push(self.rest.next()?),
                '$' if self.rest.peek() == Some(&'(') => {
                    word.push_str(&self.take_substitution(command)?);
                }
                '`' => {
                    let mut inner = String::new();
                    take_until(&mut self.rest, '`', &mut inner)?;
                    self.add_substitution(&inner, command)?;
                    word.push('`');
                }
                char => word.push(char),
            }
        }
    }

    /// Takes the text in parentheses, without looking at what it means. Returns what stands for its output.
    fn take_substitution(&mut self, command: &mut RawCommand) -> Option<String> {
        self.rest.next_if_eq(&'(')?;
        let (mut depth, mut inner) = (1_usize, String::new());
        loop {
            let char = self.rest.next()?;
            match char {
                '(' => depth += 1,
                ')' => depth -= 1,
                '\'' => {
                    inner.push(char);
                    take_until(&mut self.rest, char, &mut inner)?;
                }
                '"' => {
                    inner.push(char);
                    take_escaped_until(&mut self.rest, char, &mut inner)?;
                }
                '\\' => {
                    inner.push(char);
                    inner.push(self.rest.next()?);
                    continue;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
            inner.push(char);
        }
        self.add_substitution(&inner, command)?;
        Some(known_output(&inner).unwrap_or_else(|| PROCESS_FILE.to_string()))
    }

    fn add_substitution(&mut self, inner: &str, command: &mut RawCommand) -> Option<()> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        let is_arithmetic = inner.starts_with('(') && inner.ends_with(')');
        let parts = split_line(inner, self.depth + 1, self.budget);
        // `$((1 << 2))`
        let is_plain = is_arithmetic && !inner.contains("$(") && !inner.contains('`');
        let mut parts = if is_plain { parts.unwrap_or_default() } else { parts? };
        if is_arithmetic {
            for part in &mut parts {
                part.kind = PartKind::Arithmetic;
            }
        }
        command.substitutions.extend(parts);
        Some(())
    }
}

/// A word for the output of a command that is known without running it.
fn known_output(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let is_number = |word: &str| word.parse::<u32>().is_ok();
    match words.as_slice() {
        ["pwd"] => Some("${PWD}".to_string()),
        ["git", "rev-parse", "--show-toplevel"] => Some(format!("${{{TOPLEVEL_VARIABLE}}}")),
        ["seq", last] if is_number(last) => Some(format!("{{1..{last}}}")),
        ["seq", first, last] if is_number(first) && is_number(last) => {
            Some(format!("{{{first}..{last}}}"))
        }
        _ => None,
    }
}

fn end_word(word: &mut Option<String>, command: &mut RawCommand, is_output: &mut bool) {
    let Some(word) = word.take() else { return };
    let words = if std::mem::take(is_output) { &mut command.outputs } else { &mut command.words };
    words.push(word);
}

fn take_until(rest: &mut Peekable<Chars<'_>>, end: char, text: &mut String) -> Option<()> {
    loop {
        match rest.next()? {
            char if char == end => return Some(()),
            char => text.push(char),
        }
    }
}

/// Like [`take_until`], for text in which a backslash quotes the next character.
fn take_escaped_until(rest: &mut Peekable<Chars<'_>>, end: char, text: &mut String) -> Option<()> {
    loop {
        match rest.next()? {
            char if char == end => return Some(()),
            '\\' => text.extend(['\\', rest.next()?]),
            char => text.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::code_texts::expand_code_texts;
    use super::super::executed_scripts::find_executed_scripts;
    use super::*;
    use proptest::prelude::*;

    fn shown(line: &str) -> String {
        let parts = line_parts(line).into_iter().map(|part| {
            let mark = if part.is_compared { "~" } else { "" };
            format!("{mark}{}", part.words.join("·"))
        });
        parts.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn a_line_is_split_into_its_commands() {
        for (line, expected) in [
            ("pytest -q tests", "pytest·-q·tests"),
            ("cd web && ./lint.sh 'a b' \"c d\"", "cd·web | ./lint.sh·a b·c d"),
            ("./greet.sh | grep -q hello", "~./greet.sh | grep·-q·hello"),
            ("./greet.sh | sort | diff - want", "~./greet.sh | ~sort | diff·-·want"),
            ("./tests.js | tap-spec", "./tests.js | tap-spec"),
            ("./a | grep b | ./judge", "./a | grep·b | ./judge"),
            ("[ \"$(./greet.sh x)\" = hello ]", "[·$·=·hello·] | ~./greet.sh·x"),
            ("echo `./greet.sh` | grep -q x", "~echo·` | ~./greet.sh | grep·-q·x"),
            ("diff <(./greet.sh) want", "diff·$·want | ~./greet.sh"),
            ("x=$(./greet.sh); [ $x = 1 ]", "x=$ | ./greet.sh | [·$x·=·1·]"),
            ("tool >out.txt 2>&1 <in.txt", "tool·in.txt"),
            ("if ! ./a; then (b; c) | wc; fi", "if·!·./a | then | b | c | wc | fi"),
            ("(b; c) | grep -q d", "b | ~c | grep·-q·d"),
            ("bash -ec './a; ./b | grep c' x", "bash·-ec·x | ./a | ~./b | grep·c"),
            ("echo ${A:-b c} # ./no", "echo·${A:-b c}"),
            ("cat <<EOF\nx\nEOF", "cat <<EOF\nx\nEOF"),
            ("case x in a) b;; esac", "case x in a) b;; esac"),
            ("echo 'open", "echo 'open"),
            ("(a", "(a"),
            ("", ""),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
        let deep = format!("{}a{}", "$(".repeat(50_000), ")".repeat(50_000));
        assert_eq!(line_parts(&deep).len(), 1);
    }

    #[test]
    fn a_function_is_a_group_of_commands() {
        for (line, expected) in [
            ("x () | y", "x | y"),
            ("f() { sh a.sh; }; f", "f | {·sh·a.sh | } | f"),
            ("() | ()", ""),
            ("a | () | b", "a | b"),
            ("sh chk/@(a|b).sh", "sh chk/@(a|b).sh"),
            ("x=(a b)", "x=(a b)"),
            ("x=$(printf \"a\\\"b)\"); ./c", "x=$ | printf·a\"b) | ./c"),
            ("test $((1 << 2)) = 4", "test·$·=·4"),
            ("echo ${x:-$(./a)}", "echo ${x:-$(./a)}"),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
    }

    /// Returns the bytes that were split, with those that were split again.
    fn split_bytes(line: &str) -> usize {
        let mut budget = SplitBudget::default();
        split_line(line, 0, &mut budget);
        budget.bytes
    }

    #[test]
    fn long_lines_are_not_split() {
        for line in [
            "cat|".repeat(MAX_COMMANDS) + "grep x",
            "x ".repeat(MAX_LINE_BYTES),
            "x ".repeat(MAX_COMMAND_WORDS + 1),
        ] {
            let parts = line_parts(&line);
            assert_eq!((parts.len(), parts[0].kind), (1, PartKind::TooLong));
            assert!(split_bytes(&line) <= line.len());
        }
        assert_eq!(line_parts(&("cat|".repeat(MAX_COMMANDS - 1) + "grep x")).len(), MAX_COMMANDS);
    }

    const TOKENS: [&str; 48] = [
        " ", " ", " ", "(", ")", "$(", "((", "))", "{", "}", "|", "||", "&", "&&", ";", ";;", "<",
        "<<", "<<<", "<(", ">", ">(", "2>&1", "'", "\"", "`", "\\", "$", "${", "$x", "\n", "#",
        "*", "[", "]", "=", "f()", "sh", "-c", "cat", "for", "in", "do", "done", "case", "eval",
        "x=", "ä",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// A policy comes from the repository, so that no line may make ralph panic or wait.
        #[test]
        fn no_line_panics_and_the_work_is_linear(
            tokens in prop::collection::vec(prop::sample::select(&TOKENS[..]), 0..60),
        ) {
            let line = tokens.concat();
            prop_assert!(split_bytes(&line) <= line.len() * (MAX_DEPTH + 1));
            let parts = line_parts(&line);
            for at in 0..parts.len() {
                prop_assert!(input_of(&parts, at).len() <= at);
            }
            find_executed_scripts(&expand_code_texts(parts, None), None);
        }
    }
}
