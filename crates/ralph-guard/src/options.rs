//! Parses the arguments of a command by the usual conventions.

use super::word_expansion::{ShellValues, WordSpelling};
use alloc::string::String;
use alloc::vec::Vec;

/// One argument of a command.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandArg<'a> {
    /// The text that the program would get, as far as it is known.
    pub(super) text: String,
    pub(super) spellings: Vec<WordSpelling>,
    /// Command substitutions in it.
    pub(super) commands: Vec<&'a str>,
}

impl CommandArg<'_> {
    pub(super) fn literal(text: &str) -> Self {
        Self {
            text: text.into(),
            spellings: alloc::vec![WordSpelling::literal(text)],
            commands: Vec::new(),
        }
    }

    /// The spellings after a prefix such as `of=`. A leading `~` is expanded.
    pub(super) fn spellings_after(
        &self,
        prefix: &str,
        values: &dyn ShellValues,
    ) -> Vec<WordSpelling> {
        let rest = self.spellings.iter().filter_map(|spelling| {
            let rest = spelling.text.strip_prefix(prefix)?;
            let text =
                match rest.strip_prefix('~').and_then(|path| Some((path, values.home_of("")?))) {
                    Some((path, home)) if path.is_empty() || path.starts_with('/') => home + path,
                    _ => rest.into(),
                };
            Some(WordSpelling { text, is_open: spelling.is_open })
        });
        rest.collect()
    }
}

/// Parsed options and operands.
#[derive(Debug, Default)]
pub(super) struct ParsedOptions<'a> {
    /// The letters of short options, including those with a value.
    pub(super) letters: String,
    pub(super) long: Vec<&'a str>,
    pub(super) values: Vec<(&'a str, Vec<WordSpelling>)>,
    pub(super) operands: Vec<&'a CommandArg<'a>>,
}

impl ParsedOptions<'_> {
    pub(super) fn has(&self, letters: &str, long: &str) -> bool {
        self.letters.chars().any(|letter| letters.contains(letter)) || self.has_long(long)
    }

    pub(super) fn has_long(&self, name: &str) -> bool {
        self.long.contains(&name)
    }

    pub(super) fn values_of(&self, names: &[&str]) -> Vec<WordSpelling> {
        let given = self.values.iter().filter(|(name, _)| names.contains(name));
        given.flat_map(|(_, spellings)| spellings.iter().cloned()).collect()
    }
}

/// `valued` lists the options that take a value: `t` for `-t x` and `-tx`, `output` for `--output x`.
pub(super) fn parse_options<'a>(
    args: &'a [CommandArg<'a>],
    valued: &[&'a str],
    known: &dyn ShellValues,
) -> ParsedOptions<'a> {
    let mut out = ParsedOptions::default();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg.text == "--" {
            out.operands.extend(rest);
            break;
        }
        if let Some(long) = arg.text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            out.long.push(name);
            if name.len() < long.len() {
                out.values.push((name, arg.spellings_after(&alloc::format!("--{name}="), known)));
            } else if valued.contains(&name)
                && let Some(value) = rest.next()
            {
                out.values.push((name, value.spellings.clone()));
            }
        } else if let Some(letters) =
            arg.text.strip_prefix('-').filter(|letters| !letters.is_empty())
        {
            for (at, letter) in letters.char_indices() {
                out.letters.push(letter);
                let Some(name) =
                    valued.iter().find(|name| name.len() == 1 && name.starts_with(letter))
                else {
                    continue;
                };
                let taken = alloc::format!("-{}", letters.get(..=at).unwrap_or_default());
                if taken.len() < arg.text.len() {
                    out.values.push((name, arg.spellings_after(&taken, known)));
                } else if let Some(value) = rest.next() {
                    out.values.push((name, value.spellings.clone()));
                }
                break;
            }
        } else {
            out.operands.push(arg);
        }
    }
    out
}
