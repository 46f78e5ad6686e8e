//! Walks through a shell script command by command, as the shell would, and tracks the working directory and the
//! variables. Anything that cannot be derived from the text is unknown, and unknown paths are never objected to.

use super::denial_text::deny;
use super::guarded_path::{PathPattern, PathUse, guarded_target};
use super::options::CommandArg;
use super::shell_lexer::{RedirectDirection, ShellLexer, ShellToken, ShellWord, WordPart};
use super::simple_command::{self, ShellCommand};
use super::word_expansion::{ShellValues, WordSpelling, expand_word, literal_text};
use super::{DeniedCall, GuardContext, find_command, loosening};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;

/// The deepest nesting of scripts, as in `bash -c "bash -c …"`.
const MAX_SCRIPT_DEPTH: usize = 8;

/// The deepest nesting of subshells. Beyond it, a `cd` also affects commands after the subshell.
const MAX_SUBSHELL_DEPTH: usize = 64;

const MAX_VARIABLES: usize = 64;

/// How many tokens are examined in total. Long commands usually contain long texts, each of which is one token.
pub(super) const TOKEN_BUDGET: u32 = 50_000;

/// The output of a longer command counts as unknown.
const MAX_SUBSTITUTION_BYTES: usize = 4096;

/// The state of a shell.
#[derive(Clone, Debug)]
pub(super) struct ShellState<'g> {
    pub(super) ground: &'g GuardContext<'g>,
    budget: &'g Cell<u32>,
    pub(super) directory: Option<PathPattern>,
    previous_directories: Vec<Option<PathPattern>>,
    variables: Vec<(String, Vec<WordSpelling>)>,
    depth: usize,
}

/// What the commands before a pipe produce.
#[derive(Clone, Debug, Default)]
pub(super) struct PipeFeed {
    pub(super) paths: Vec<WordSpelling>,
    pub(super) text: Option<String>,
    /// A command so far mentions `refs/ralph`.
    pub(super) is_about_refs: bool,
    /// A command so far searches for ralph's processes.
    pub(super) is_about_processes: bool,
}

#[derive(Debug)]
enum ShellFrame<'g> {
    Subshell(Option<ShellState<'g>>),
    Case,
}

#[derive(Debug, Default)]
struct SimpleCommand<'a> {
    assignments: Vec<(String, ShellWord<'a>)>,
    words: Vec<ShellWord<'a>>,
    redirects: Vec<(RedirectDirection, ShellWord<'a>)>,
    heredocs: Vec<(&'a str, bool)>,
}

impl<'g> ShellState<'g> {
    pub(super) fn new(ground: &'g GuardContext<'g>, budget: &'g Cell<u32>) -> Self {
        let directory = Some(PathPattern::new(ground.cwd));
        Self {
            ground,
            budget,
            directory,
            previous_directories: Vec::new(),
            variables: Vec::new(),
            depth: 0,
        }
    }

    /// The first objection to using the paths that these spellings lead to.
    pub(super) fn objection(
        &self,
        touch: PathUse,
        spellings: &[WordSpelling],
        how: &str,
    ) -> Option<DeniedCall> {
        spellings.iter().find_map(|spelling| {
            let place = PathPattern::resolve(spelling, self.directory.as_ref())?;
            let what = guarded_target(&place, touch, self.ground)?;
            Some(deny(what, how, &spelling.plain()))
        })
    }

    /// A shell nested in this one; `None` if the nesting is too deep.
    pub(super) fn nested(&self) -> Option<Self> {
        let depth = self.depth + 1;
        (depth < MAX_SCRIPT_DEPTH).then(|| Self { depth, ..self.clone() })
    }

    /// Judges a script that a command of this shell runs in a new shell.
    pub(super) fn judge_nested_script(&self, script: &str) -> Option<DeniedCall> {
        judge_shell_script(script, &mut self.nested()?)
    }

    /// Judges a script that runs in this shell itself.
    pub(super) fn judge_in_this_shell(&mut self, script: &str) -> Option<DeniedCall> {
        self.depth += 1;
        let found = judge_shell_script(script, self);
        self.depth -= 1;
        found
    }

    pub(super) fn assign(&mut self, name: &str, value: Vec<WordSpelling>) {
        self.variables.retain(|(other, _)| other != name);
        if self.variables.len() < MAX_VARIABLES {
            self.variables.push((name.to_owned(), value));
        }
    }

    pub(super) fn set_unknown(&mut self, name: &str) {
        self.assign(name, alloc::vec![WordSpelling { text: String::new(), is_open: true }]);
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.variables
            .iter()
            .any(|(other, value)| other == name && value.iter().any(|value| !value.text.is_empty()))
    }

    pub(super) fn change_directory(&mut self, to: Option<&CommandArg<'_>>) {
        let home = self.home_of("").as_deref().map(PathPattern::new);
        let next = match to {
            None => home,
            Some(arg) if arg.text == "-" => self.previous_directories.pop().flatten(),
            Some(arg) => match arg.spellings.as_slice() {
                [spelling] if !spelling.is_open => {
                    PathPattern::resolve(spelling, self.directory.as_ref())
                }
                _ => None,
            },
        };
        if self.previous_directories.len() < MAX_SUBSHELL_DEPTH {
            self.previous_directories.push(self.directory.clone());
        }
        self.directory = next;
    }

    pub(super) fn pop_directory(&mut self) {
        self.directory = self.previous_directories.pop().flatten();
    }
}

impl ShellValues for ShellState<'_> {
    fn variable(&self, name: &str) -> Option<Vec<WordSpelling>> {
        let own = self.variables.iter().find(|(other, _)| other == name);
        if let Some((_, value)) = own {
            return Some(value.clone());
        }
        let value = match name {
            "HOME" => self.ground.user_home,
            "RALPH_HOME" => self.ground.ralph_homes.first().copied(),
            "PWD" => return Some(alloc::vec![self.directory.as_ref()?.spelling()]),
            name if name == self.ground.host.variables.project_dir => Some(self.ground.project),
            _ => None,
        };
        value.map(|value| alloc::vec![WordSpelling::literal(value)])
    }

    fn command_output(&self, command: &str) -> Option<Vec<WordSpelling>> {
        let inner = self.nested().filter(|_| command.len() <= MAX_SUBSTITUTION_BYTES)?;
        let words: Vec<ShellWord<'_>> = ShellLexer::new(command)
            .map_while(|token| if let ShellToken::Word(word) = token { Some(word) } else { None })
            .collect();
        let args: Vec<CommandArg<'_>> =
            words.iter().map(|word| expand_argument(word, &inner)).collect();
        let (program, args) = args.split_first()?;
        let operands = || args.iter().filter(|arg| !arg.text.starts_with('-'));
        match (program.text.as_str(), args.first().map(|arg| arg.text.as_str())) {
            ("pwd", _) => Some(alloc::vec![inner.directory?.spelling()]),
            ("git", Some("rev-parse")) if command.contains("--show-toplevel") => {
                Some(alloc::vec![WordSpelling::literal(self.ground.project)])
            }
            ("find", _) => Some(find_command::find_results(args, &inner)),
            ("dirname", _) => {
                let place = PathPattern::resolve(
                    operands().next()?.spellings.first()?,
                    inner.directory.as_ref(),
                )?;
                Some(alloc::vec![place.parent().spelling()])
            }
            ("echo" | "printf" | "realpath" | "ls", _) => {
                Some(operands().flat_map(|arg| arg.spellings.clone()).collect())
            }
            _ => None,
        }
    }

    fn home_of(&self, user: &str) -> Option<String> {
        let home = self.ground.user_home?;
        match user {
            "" => {
                self.variable("HOME")?.first().filter(|home| !home.is_open).map(WordSpelling::plain)
            }
            "+" => Some(self.directory.as_ref()?.spelling().plain()),
            user => home.rsplit('/').next().filter(|name| *name == user).map(|_| home.to_owned()),
        }
    }
}

fn substitution<'a>(part: &WordPart<'a>) -> Option<&'a str> {
    if let WordPart::Substitution(command) = part { Some(command) } else { None }
}

pub(super) fn expand_argument<'a>(
    word: &ShellWord<'a>,
    values: &dyn ShellValues,
) -> CommandArg<'a> {
    let commands = word.parts.iter().filter_map(substitution);
    CommandArg {
        text: literal_text(word, values),
        spellings: expand_word(word, values),
        commands: commands.collect(),
    }
}

/// The first objection to any command of the script.
pub(super) fn judge_shell_script(script: &str, shell: &mut ShellState<'_>) -> Option<DeniedCall> {
    if shell.depth >= MAX_SCRIPT_DEPTH {
        return None;
    }
    let mut frames: Vec<ShellFrame<'_>> = Vec::new();
    let mut simple = SimpleCommand::default();
    let mut feed = PipeFeed::default();
    for token in ShellLexer::new(script) {
        shell.budget.set(shell.budget.get().checked_sub(1)?);
        match token {
            ShellToken::Word(word) => add_word(&mut simple, word, &mut frames),
            ShellToken::Redirect { direction, target } => {
                simple.redirects.push((direction, target));
            }
            ShellToken::Heredoc { body, is_expanded } => simple.heredocs.push((body, is_expanded)),
            ShellToken::Close if matches!(frames.last(), Some(ShellFrame::Case)) => {
                simple = SimpleCommand::default();
            }
            ShellToken::Next | ShellToken::Pipe | ShellToken::Open | ShellToken::Close => {
                let ended = core::mem::take(&mut simple);
                if let Some(found) = judge_simple_command(&ended, shell, &mut feed) {
                    return Some(found);
                }
                if matches!(token, ShellToken::Next) {
                    feed = PipeFeed::default();
                } else if matches!(token, ShellToken::Open) {
                    let saved = (frames.len() < MAX_SUBSHELL_DEPTH).then(|| shell.clone());
                    frames.push(ShellFrame::Subshell(saved));
                } else if matches!(token, ShellToken::Close)
                    && let Some(ShellFrame::Subshell(Some(saved))) = frames.pop()
                {
                    *shell = saved;
                }
            }
        }
    }
    judge_simple_command(&simple, shell, &mut feed)
}

fn add_word<'a>(
    simple: &mut SimpleCommand<'a>,
    word: ShellWord<'a>,
    frames: &mut Vec<ShellFrame<'_>>,
) {
    let is_first = simple.words.is_empty();
    if is_first && simple.assignments.is_empty() {
        match word.plain() {
            Some(
                "if" | "then" | "elif" | "else" | "fi" | "do" | "done" | "while" | "until" | "!"
                | "{" | "}" | "function",
            ) => return,
            Some("case") => frames.push(ShellFrame::Case),
            Some("esac") => {
                if matches!(frames.last(), Some(ShellFrame::Case)) {
                    frames.pop();
                }
                return;
            }
            _ => {}
        }
    }
    match assignment_name(&word) {
        Some(name) if is_first => simple.assignments.push((name, word)),
        _ => simple.words.push(word),
    }
}

/// The name in `NAME=value` or `NAME+=value`.
fn assignment_name(word: &ShellWord<'_>) -> Option<String> {
    let Some(WordPart::Bare(text)) = word.parts.first() else { return None };
    let (name, _) = text.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let is_name = name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
        && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    is_name.then(|| name.to_owned())
}

fn judge_simple_command(
    simple: &SimpleCommand<'_>,
    shell: &mut ShellState<'_>,
    feed: &mut PipeFeed,
) -> Option<DeniedCall> {
    if let Some(found) = judge_substitutions(simple, shell) {
        return Some(found);
    }
    let mut args: Vec<CommandArg<'_>> =
        simple.words.iter().map(|word| expand_argument(word, shell)).collect();
    split_program(&mut args);
    // In `[[ a > b ]]` the operator is a comparison.
    if args.first().is_none_or(|first| first.text != "[[") {
        for (direction, target) in &simple.redirects {
            let (touch, how) = match direction {
                RedirectDirection::Write => (PathUse::Write, ">"),
                RedirectDirection::Read => (PathUse::Read, "<"),
                RedirectDirection::Text => continue,
            };
            if let Some(found) = shell.objection(touch, &expand_word(target, shell), how) {
                return Some(found);
            }
        }
    }
    let mut environment = Vec::new();
    for (name, word) in &simple.assignments {
        let value = expand_argument(word, shell);
        let (prefix, text) = value.text.split_once('=').unwrap_or_default();
        environment.push((name.clone(), text.to_owned()));
        if args.is_empty() {
            if let Some(found) = loosening::judge_variable(name, text, shell.ground) {
                return Some(found);
            }
            let value = value.spellings_after(&alloc::format!("{prefix}="), shell);
            shell.assign(name, value);
        }
    }
    if args.is_empty() {
        return None;
    }
    let input = command_input(simple, shell).or_else(|| feed.text.take());
    let next = feed_next_command(&args, input.as_deref(), shell, feed);
    let command = ShellCommand { args, environment, is_environment_cleared: false, input };
    let found = simple_command::judge_command(command, shell, feed);
    *feed = next;
    found
}

/// Splits `$tool -rf x` where the variable contains several words. Wildcards in it are active.
fn split_program(args: &mut Vec<CommandArg<'_>>) {
    if args.first().is_none_or(|first| !first.text.contains(' ')) {
        return;
    }
    let text = args.remove(0).text;
    let words = text.split_whitespace().map(|word| CommandArg {
        text: word.to_owned(),
        spellings: alloc::vec![WordSpelling { text: word.to_owned(), is_open: false }],
        commands: Vec::new(),
    });
    args.splice(..0, words.collect::<Vec<_>>());
}

/// Judges command substitutions within the words and here-documents of a command.
fn judge_substitutions(simple: &SimpleCommand<'_>, shell: &ShellState<'_>) -> Option<DeniedCall> {
    let expanded = simple.heredocs.iter().filter(|(_, is_expanded)| *is_expanded);
    let heredocs: Vec<ShellWord<'_>> =
        expanded.map(|(body, _)| ShellLexer::heredoc_word(body)).collect();
    let words = simple.words.iter().chain(simple.assignments.iter().map(|(_, word)| word));
    let words = words.chain(simple.redirects.iter().map(|(_, word)| word)).chain(&heredocs);
    let mut parts = words.flat_map(|word| &word.parts);
    parts.find_map(|part| shell.judge_nested_script(substitution(part)?))
}

fn command_input(simple: &SimpleCommand<'_>, shell: &ShellState<'_>) -> Option<String> {
    let text = simple.redirects.iter().find(|(direction, _)| *direction == RedirectDirection::Text);
    let body = simple.heredocs.last().map(|(body, _)| (*body).to_owned());
    body.or_else(|| text.map(|(_, word)| literal_text(word, shell)))
}

fn feed_next_command(
    args: &[CommandArg<'_>],
    input: Option<&str>,
    shell: &ShellState<'_>,
    feed: &PipeFeed,
) -> PipeFeed {
    let Some((program, args)) = args.split_first() else { return PipeFeed::default() };
    let mut next = PipeFeed { text: None, ..feed.clone() };
    let operands = || args.iter().filter(|arg| !arg.text.starts_with('-'));
    match simple_command::program_name(&program.text) {
        "echo" | "printf" => {
            let texts: Vec<&str> = operands().map(|arg| arg.text.as_str()).collect();
            next.text = Some(texts.join(" "));
            next.paths.extend(operands().flat_map(|arg| arg.spellings.clone()));
        }
        "ls" | "fd" => next.paths.extend(operands().flat_map(|arg| arg.spellings.clone())),
        "grep" | "rg"
            if args.iter().any(|arg| arg.text.starts_with("-l") || arg.text.starts_with("-rl")) =>
        {
            next.paths.extend(operands().skip(1).flat_map(|arg| arg.spellings.clone()));
        }
        "find" => next.paths.extend(find_command::find_results(args, shell)),
        "cat" | "tee" => next.text = input.map(ToOwned::to_owned),
        _ => {}
    }
    next.paths.truncate(256);
    next.is_about_refs |= args.iter().any(|arg| arg.text.contains("refs/ralph"));
    next.is_about_processes |= loosening::searches_for_ralph(&program.text, args);
    next
}
