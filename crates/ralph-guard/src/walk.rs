//! Walks through a shell script command by command, as the shell would, and tracks the working directory and the
//! variables. Anything that cannot be derived from the text is unknown, and unknown paths are never objected to.

use super::ahead::{Ahead, Bracket, closing_backtick};
use super::command::{self, Command};
use super::lexer::{Direction, Lexer, Part, Token, Word};
use super::options::Arg;
use super::place::{Place, Touch, guarded};
use super::word::{Spelling, Values, literal, spellings};
use super::wording::denied;
use super::{Denied, Ground, find, loosening};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;

/// The deepest nesting of scripts, as in `bash -c "bash -c …"`.
const DEEPEST: usize = 8;

/// The deepest nesting of subshells. Beyond it, a `cd` also affects commands after the subshell.
const MOST_FRAMES: usize = 64;

const MOST_VARIABLES: usize = 64;

/// How many tokens are examined in total. Long commands usually contain long texts, each of which is one token.
pub(super) const BUDGET: u32 = 50_000;

/// The output of a longer command counts as unknown.
const LONGEST_PRINTED: usize = 4096;

/// The state of a shell.
#[derive(Clone, Debug)]
pub(super) struct Shell<'g> {
    pub(super) ground: &'g Ground<'g>,
    budget: &'g Cell<u32>,
    pub(super) directory: Option<Place>,
    left: Vec<Option<Place>>,
    variables: Vec<(String, Vec<Spelling>)>,
    depth: usize,
}

/// What the commands before a pipe produce.
#[derive(Clone, Debug, Default)]
pub(super) struct Feed {
    pub(super) paths: Vec<Spelling>,
    pub(super) text: Option<String>,
    /// A command so far mentions `refs/ralph`.
    pub(super) is_about_refs: bool,
    /// A command so far searches for ralph's processes.
    pub(super) is_about_processes: bool,
}

#[derive(Debug)]
enum Frame<'g> {
    Subshell(Option<Shell<'g>>),
    Case,
}

#[derive(Debug, Default)]
struct Simple<'a> {
    assignments: Vec<(String, Word<'a>)>,
    words: Vec<Word<'a>>,
    redirects: Vec<(Direction, Word<'a>)>,
    heredocs: Vec<(&'a str, bool)>,
}

impl<'g> Shell<'g> {
    pub(super) fn new(ground: &'g Ground<'g>, budget: &'g Cell<u32>) -> Self {
        let directory = Some(Place::new(ground.cwd));
        Self { ground, budget, directory, left: Vec::new(), variables: Vec::new(), depth: 0 }
    }

    /// The first objection to using the paths that these spellings lead to.
    pub(super) fn object(&self, touch: Touch, spellings: &[Spelling], how: &str) -> Option<Denied> {
        spellings.iter().find_map(|spelling| {
            let place = Place::of(spelling, self.directory.as_ref())?;
            let what = guarded(&place, touch, self.ground)?;
            Some(denied(what, how, &spelling.plain()))
        })
    }

    /// A shell nested in this one; `None` if the nesting is too deep.
    pub(super) fn deeper(&self) -> Option<Self> {
        let depth = self.depth + 1;
        (depth < DEEPEST).then(|| Self { depth, ..self.clone() })
    }

    /// Judges a script that a command of this shell runs in a new shell.
    pub(super) fn inner(&self, script: &str) -> Option<Denied> {
        walk(script, &mut self.deeper()?)
    }

    /// Judges a script that runs in this shell itself.
    pub(super) fn here(&mut self, script: &str) -> Option<Denied> {
        self.depth += 1;
        let found = walk(script, self);
        self.depth -= 1;
        found
    }

    pub(super) fn assign(&mut self, name: &str, value: Vec<Spelling>) {
        self.variables.retain(|(other, _)| other != name);
        if self.variables.len() < MOST_VARIABLES {
            self.variables.push((name.to_owned(), value));
        }
    }

    pub(super) fn forget(&mut self, name: &str) {
        self.assign(name, alloc::vec![Spelling { text: String::new(), is_open: true }]);
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.variables
            .iter()
            .any(|(other, value)| other == name && value.iter().any(|value| !value.text.is_empty()))
    }

    pub(super) fn change_directory(&mut self, to: Option<&Arg<'_>>) {
        let home = self.home_of("").as_deref().map(Place::new);
        let next = match to {
            None => home,
            Some(arg) if arg.text == "-" => self.left.pop().flatten(),
            Some(arg) => match arg.spellings.as_slice() {
                [spelling] if !spelling.is_open => Place::of(spelling, self.directory.as_ref()),
                _ => None,
            },
        };
        if self.left.len() < MOST_FRAMES {
            self.left.push(self.directory.clone());
        }
        self.directory = next;
    }

    pub(super) fn go_back(&mut self) {
        self.directory = self.left.pop().flatten();
    }
}

impl Values for Shell<'_> {
    fn variable(&self, name: &str) -> Option<Vec<Spelling>> {
        let own = self.variables.iter().find(|(other, _)| other == name);
        if let Some((_, value)) = own {
            return Some(value.clone());
        }
        let value = match name {
            "HOME" => self.ground.user_home,
            "RALPH_HOME" => self.ground.ralph_homes.first().copied(),
            "PWD" => return Some(alloc::vec![self.directory.as_ref()?.spelling()]),
            "CLAUDE_PROJECT_DIR" => Some(self.ground.project),
            _ => None,
        };
        value.map(|value| alloc::vec![Spelling::of(value)])
    }

    fn printed(&self, command: &str) -> Option<Vec<Spelling>> {
        let inner = self.deeper().filter(|_| command.len() <= LONGEST_PRINTED)?;
        let words: Vec<Word<'_>> = Lexer::new(command)
            .map_while(|token| if let Token::Word(word) = token { Some(word) } else { None })
            .collect();
        let args: Vec<Arg<'_>> = words.iter().map(|word| argument(word, &inner)).collect();
        let (program, args) = args.split_first()?;
        let operands = || args.iter().filter(|arg| !arg.text.starts_with('-'));
        match (program.text.as_str(), args.first().map(|arg| arg.text.as_str())) {
            ("pwd", _) => Some(alloc::vec![inner.directory?.spelling()]),
            ("git", Some("rev-parse")) if command.contains("--show-toplevel") => {
                Some(alloc::vec![Spelling::of(self.ground.project)])
            }
            ("find", _) => Some(find::found(args, &inner)),
            ("dirname", _) => {
                let place =
                    Place::of(operands().next()?.spellings.first()?, inner.directory.as_ref())?;
                Some(alloc::vec![place.parent().spelling()])
            }
            ("echo" | "printf" | "realpath" | "readlink" | "ls" | "cygpath", _) => {
                Some(operands().flat_map(|arg| arg.spellings.clone()).collect())
            }
            _ => None,
        }
    }

    fn home_of(&self, user: &str) -> Option<String> {
        let home = self.ground.user_home?;
        match user {
            "" => self.variable("HOME")?.first().filter(|home| !home.is_open).map(Spelling::plain),
            "+" => Some(self.directory.as_ref()?.spelling().plain()),
            user => home.rsplit('/').next().filter(|name| *name == user).map(|_| home.to_owned()),
        }
    }
}

pub(super) fn argument<'a>(word: &Word<'a>, values: &dyn Values) -> Arg<'a> {
    let commands = word.parts.iter().filter_map(|part| match part {
        Part::Substitution(command) => Some(*command),
        Part::Bare(_) | Part::Quoted(_) | Part::Variable { .. } | Part::Unknown => None,
    });
    Arg {
        text: literal(word, values),
        spellings: spellings(word, values),
        commands: commands.collect(),
    }
}

/// The first objection to any command of the script.
pub(super) fn walk(script: &str, shell: &mut Shell<'_>) -> Option<Denied> {
    if shell.depth >= DEEPEST {
        return None;
    }
    let mut frames: Vec<Frame<'_>> = Vec::new();
    let mut simple = Simple::default();
    let mut feed = Feed::default();
    for token in Lexer::new(script) {
        shell.budget.set(shell.budget.get().checked_sub(1)?);
        match token {
            Token::Word(word) => push(&mut simple, word, &mut frames),
            Token::Redirect { direction, target } => simple.redirects.push((direction, target)),
            Token::Heredoc { body, is_expanded } => simple.heredocs.push((body, is_expanded)),
            Token::Next => {
                if let Some(found) = run(&core::mem::take(&mut simple), shell, &mut feed) {
                    return Some(found);
                }
                feed = Feed::default();
            }
            Token::Pipe => {
                if let Some(found) = run(&core::mem::take(&mut simple), shell, &mut feed) {
                    return Some(found);
                }
            }
            Token::Open => {
                if let Some(found) = run(&core::mem::take(&mut simple), shell, &mut feed) {
                    return Some(found);
                }
                let saved = (frames.len() < MOST_FRAMES).then(|| shell.clone());
                frames.push(Frame::Subshell(saved));
            }
            Token::Close if matches!(frames.last(), Some(Frame::Case)) => {
                simple = Simple::default();
            }
            Token::Close => {
                if let Some(found) = run(&core::mem::take(&mut simple), shell, &mut feed) {
                    return Some(found);
                }
                if let Some(Frame::Subshell(Some(saved))) = frames.pop() {
                    *shell = saved;
                }
            }
        }
    }
    run(&simple, shell, &mut feed)
}

fn push<'a>(simple: &mut Simple<'a>, word: Word<'a>, frames: &mut Vec<Frame<'_>>) {
    let is_first = simple.words.is_empty();
    if is_first && simple.assignments.is_empty() {
        match word.plain() {
            Some(
                "if" | "then" | "elif" | "else" | "fi" | "do" | "done" | "while" | "until" | "!"
                | "{" | "}" | "function" | "coproc",
            ) => return,
            Some("case") => frames.push(Frame::Case),
            Some("esac") => {
                if matches!(frames.last(), Some(Frame::Case)) {
                    frames.pop();
                }
                return;
            }
            _ => {}
        }
    }
    match assignment(&word) {
        Some(name) if is_first => simple.assignments.push((name, word)),
        _ => simple.words.push(word),
    }
}

/// The name in `NAME=value` or `NAME+=value`.
fn assignment(word: &Word<'_>) -> Option<String> {
    let Some(Part::Bare(text)) = word.parts.first() else { return None };
    let (name, _) = text.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let is_name = name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
        && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    is_name.then(|| name.to_owned())
}

fn run(simple: &Simple<'_>, shell: &mut Shell<'_>, feed: &mut Feed) -> Option<Denied> {
    if let Some(found) = nested(simple, shell) {
        return Some(found);
    }
    let mut args: Vec<Arg<'_>> = simple.words.iter().map(|word| argument(word, shell)).collect();
    // In `[[ a > b ]]` the operator is a comparison.
    if args.first().is_none_or(|first| first.text != "[[") {
        for (direction, target) in &simple.redirects {
            let (touch, how) = match direction {
                Direction::Write => (Touch::Write, ">"),
                Direction::Read => (Touch::Read, "<"),
                Direction::Text => continue,
            };
            if let Some(found) = shell.object(touch, &spellings(target, shell), how) {
                return Some(found);
            }
        }
    }
    let mut environment = Vec::new();
    for (name, word) in &simple.assignments {
        let value = argument(word, shell);
        let (prefix, text) = value.text.split_once('=').unwrap_or_default();
        environment.push((name.clone(), text.to_owned()));
        if args.is_empty() {
            if let Some(found) = loosening::variable(name, text, shell.ground) {
                return Some(found);
            }
            let value = value.after(&alloc::format!("{prefix}="), shell);
            shell.assign(name, value);
        }
    }
    if args.is_empty() {
        return None;
    }
    let input = input(simple, shell).or_else(|| feed.text.take());
    let next = down_the_pipe(&args, input.as_deref(), (shell, feed));
    // `$tool -rf x`: the variable contains several words.
    if let Some(first) = args.first_mut().filter(|first| first.text.contains(' ')) {
        let script = core::mem::take(&mut first.text);
        let rest: Vec<&str> = args.iter().skip(1).map(|arg| arg.text.as_str()).collect();
        return shell.inner(&alloc::format!("{script} {}", rest.join(" ")));
    }
    let command = Command { args, environment, input };
    let found = command::judge(command, shell, feed);
    *feed = next;
    found
}

/// Judges command substitutions within the words of a command.
fn nested(simple: &Simple<'_>, shell: &Shell<'_>) -> Option<Denied> {
    let words = simple.words.iter().chain(simple.assignments.iter().map(|(_, word)| word));
    for word in words.chain(simple.redirects.iter().map(|(_, word)| word)) {
        for part in &word.parts {
            if let Part::Substitution(command) = part
                && let Some(found) = shell.inner(command)
            {
                return Some(found);
            }
        }
    }
    let bodies = simple.heredocs.iter().filter(|(_, is_expanded)| *is_expanded);
    bodies.into_iter().find_map(|(body, _)| expanded(body, shell))
}

/// Judges `$(…)` and backticks in a here-document, which the shell runs when it expands it.
fn expanded(body: &str, shell: &Shell<'_>) -> Option<Denied> {
    let mut ahead = Ahead::new(body);
    let mut at = 0;
    while let Some(found) = body.get(at..).and_then(|rest| rest.find(['$', '`', '\\'])) {
        at += found + 1;
        let (from, end) = match body.get(at - 1..at + 1) {
            Some("$(") => (at + 1, ahead.closing(at + 1, Bracket::Round)),
            Some(text) if text.starts_with('`') => (at, closing_backtick(body, at)),
            Some(text) if text.starts_with('\\') => {
                at += 1;
                continue;
            }
            _ => continue,
        };
        if let Some(found) = body.get(from..end).and_then(|command| shell.inner(command)) {
            return Some(found);
        }
        at = end + 1;
    }
    None
}

fn input(simple: &Simple<'_>, shell: &Shell<'_>) -> Option<String> {
    let text = simple.redirects.iter().find(|(direction, _)| *direction == Direction::Text);
    let body = simple.heredocs.last().map(|(body, _)| (*body).to_owned());
    body.or_else(|| text.map(|(_, word)| literal(word, shell)))
}

fn down_the_pipe(
    args: &[Arg<'_>],
    input: Option<&str>,
    (shell, feed): (&Shell<'_>, &Feed),
) -> Feed {
    let Some((program, args)) = args.split_first() else { return Feed::default() };
    let mut next = Feed { text: None, ..feed.clone() };
    let operands = || args.iter().filter(|arg| !arg.text.starts_with('-'));
    match command::name(&program.text) {
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
        "find" => next.paths.extend(find::found(args, shell)),
        "cat" | "tee" => next.text = input.map(ToOwned::to_owned),
        _ => {}
    }
    next.paths.truncate(256);
    next.is_about_refs |= args.iter().any(|arg| arg.text.contains("refs/ralph"));
    next.is_about_processes |= loosening::seeks_ralph(&program.text, args);
    next
}
