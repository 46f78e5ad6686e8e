//! Finds source locations in free text: `path:line:col`, `path(line,col)`, `"path", line 3`. Times, addresses and
//! ratios look similar, so a name counts only if it looks like a source file.

use super::{ReportContext, project_file};

/// A source location as a tool printed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RawLocation<'a> {
    pub(super) file: &'a str,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
}

/// A location, and the text before and after it on its line.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocationMatch<'a> {
    pub(super) before: &'a str,
    pub(super) location: RawLocation<'a>,
    pub(super) after: &'a str,
}

/// Extensions that make a name without a directory a source file. With a directory, any extension does.
const SOURCE_EXTENSIONS: &str = " adb ads asm astro bash bats bzl c cc cfg cjs clj cljs cmake coffee conf cpp cr cs css cts cu cue cxx d \
    dart dockerfile el elm erb erl ex exs f90 feature fish fs fsx gd gleam go gradle graphql groovy h hbs hcl hpp hrl hs html \
    hxx ini ipynb java jinja jl js json jsonc jsx kt kts less lhs lua m md mdx mjs mk ml mli mm mod mts mustache nim nix odin \
    php pl pm prisma properties proto ps1 pug py pyi pyx r rake rb re res rkt rs rst s sass scala scm scss sh sol sql sv svelte \
    swift tcl tex tf toml ts tsx twig txt v vb vbs vhd vue wat xml xsl yaml yml zig zsh ";

const SOURCE_NAMES: [&str; 7] =
    ["Makefile", "makefile", "GNUmakefile", "Dockerfile", "Justfile", "justfile", "Rakefile"];

/// A line with more candidates than this is data.
const MAX_CANDIDATES: usize = 40;
const MAX_NAME_CHARS: usize = 400;

/// The first location on a line.
pub(super) fn first_location(line: &str) -> Option<LocationMatch<'_>> {
    let found = [find_colon_form(line), find_parenthesis_form(line), find_word_form(line)];
    found.into_iter().flatten().min_by_key(|located| located.before.len())
}

/// The first location in the project that a text names, or else the first of all.
pub(super) fn best_location<'a>(
    text: &'a str,
    context: &ReportContext<'_>,
) -> Option<RawLocation<'a>> {
    let mut any = None;
    for line in text.lines() {
        if let Some(located) = first_location(line) {
            if project_file::is_project_file(located.location.file, context) {
                return Some(located.location);
            }
            any = any.or(Some(located.location));
        }
    }
    any
}

/// `path:3`, `path:3:5`, `path:3-5`.
fn find_colon_form(line: &str) -> Option<LocationMatch<'_>> {
    memchr::memchr_iter(b':', line.as_bytes()).take(MAX_CANDIDATES).find_map(|at| {
        let (number, rest) = parse_line_number(line.get(at + 1..)?)?;
        let (column, rest) = match rest.strip_prefix(':').and_then(self::parse_line_number) {
            Some((column, rest)) => (Some(column), rest),
            None => (None, rest),
        };
        if rest.starts_with(|char: char| char.is_alphanumeric() || char == '_') {
            return None;
        }
        let (before, file) = split_trailing_file(line.get(..at)?)?;
        Some(LocationMatch {
            before,
            location: RawLocation { file, line: Some(number), column },
            after: rest,
        })
    })
}

/// `path(3,5)`, `path(3)`.
fn find_parenthesis_form(line: &str) -> Option<LocationMatch<'_>> {
    memchr::memchr_iter(b'(', line.as_bytes()).take(MAX_CANDIDATES).find_map(|at| {
        let (number, rest) = parse_line_number(line.get(at + 1..)?)?;
        let (column, rest) = match rest.strip_prefix(',').and_then(self::parse_line_number) {
            Some((column, rest)) => (Some(column), rest),
            None => (None, rest),
        };
        let after = rest.strip_prefix(')')?;
        let (before, file) = split_trailing_file(line.get(..at)?)?;
        Some(LocationMatch {
            before,
            location: RawLocation { file, line: Some(number), column },
            after,
        })
    })
}

/// `File "x.py", line 3`, `x.php on line 3`, `x.sh: line 3`.
fn find_word_form(line: &str) -> Option<LocationMatch<'_>> {
    const LINE: &[u8] = b" line ";
    memchr::memmem::find_iter(line.as_bytes(), LINE).take(MAX_CANDIDATES).find_map(|at| {
        let (number, after) = parse_line_number(line.get(at + LINE.len()..)?)?;
        let named = line.get(..at)?;
        let named = named.strip_suffix(" on").unwrap_or(named).trim_end_matches([',', ':', '"']);
        // Only a quoted name may contain spaces.
        let quoted = named
            .rsplit_once("File \"")
            .filter(|(_, file)| is_source_name(file, SpacesInName::Allowed));
        let (before, file) = quoted.or_else(|| split_trailing_file(named))?;
        Some(LocationMatch {
            before,
            location: RawLocation { file, line: Some(number), column: None },
            after,
        })
    })
}

fn parse_line_number(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take(8).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits)?;
    let number = number.parse().ok().filter(|number| *number > 0)?;
    (digits < 8).then_some((number, rest))
}

/// Splits a text that ends with a file name into the text before it and the name.
fn split_trailing_file(text: &str) -> Option<(&str, &str)> {
    // A name at the start of a line may contain brackets and apostrophes: `app/[id]/(main)/page.tsx:3:5`.
    let word = text.trim_start();
    if word.len() <= MAX_NAME_CHARS
        && has_paired_brackets(word)
        && is_source_name(word, SpacesInName::Forbidden)
    {
        return Some((text.get(..text.len() - word.len())?, word));
    }
    let start = text
        .char_indices()
        .rev()
        .take(MAX_NAME_CHARS)
        .find(|(_, char)| char.is_whitespace() || "()[]{}<>\"'`|=,;❯".contains(*char))
        .map_or(0, |(at, char)| at + char.len_utf8());
    let (before, file) = text.split_at_checked(start)?;
    is_source_name(file, SpacesInName::Forbidden).then_some((before, file))
}

/// Whether brackets are closed, and no character delimits the name from other text.
fn has_paired_brackets(word: &str) -> bool {
    let mut open = Vec::new();
    for char in word.chars() {
        match char {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.pop() != Some(char) => return false,
            '<' | '>' | '"' | '`' | '|' | '=' | ',' | ';' | '❯' => return false,
            _ => {}
        }
    }
    open.is_empty() && !word.starts_with(['\'', '(', '['])
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SpacesInName {
    Forbidden,
    Allowed,
}

fn is_source_name(file: &str, spaces: SpacesInName) -> bool {
    let bare = file.strip_prefix("file://").unwrap_or(file);
    let rest = strip_drive(bare);
    if rest.is_empty() || rest.contains(':') || rest.contains("//") || rest.starts_with('@') {
        return false;
    }
    if spaces == SpacesInName::Forbidden && rest.contains(char::is_whitespace) {
        return false;
    }
    let name = rest.rsplit(['/', '\\']).next().unwrap_or_default();
    if SOURCE_NAMES.contains(&name) {
        return true;
    }
    let Some((stem, ending)) = name.rsplit_once('.') else {
        return false;
    };
    let is_ending = (1..=12).contains(&ending.len())
        && ending.starts_with(|char: char| char.is_ascii_alphabetic())
        && ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let has_directory = name.len() < rest.len();
    let is_known = || SOURCE_EXTENSIONS.contains(&format!(" {} ", ending.to_ascii_lowercase()));
    is_ending && (has_directory || !stem.is_empty() && is_known())
}

/// Strips `C:` if a separator follows.
fn strip_drive(file: &str) -> &str {
    match file.as_bytes() {
        [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic() => {
            file.get(2..).unwrap_or(file)
        }
        _ => file,
    }
}

/// Whether a word looks like the name of a source file.
pub(super) fn is_source_file(word: &str) -> bool {
    is_source_name(word, SpacesInName::Allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        first_location(line).map_or(
            "-".into(),
            |LocationMatch { before, location: spot, after }| {
                let number =
                    |number: Option<u32>| number.map_or("-".into(), |n: u32| n.to_string());
                format!(
                    "{before}|{}|{}|{}|{after}",
                    spot.file,
                    number(spot.line),
                    number(spot.column)
                )
            },
        )
    }

    #[test]
    fn locations_are_found_and_lookalikes_are_not() {
        for (line, expected) in [
            ("src/a.rs:3:5: error: x", "|src/a.rs|3|5|: error: x"),
            ("src/a.ts(3,5): error TS1: x", "|src/a.ts|3|5|: error TS1: x"),
            ("a.cpp(12): error C2065: x", "|a.cpp|12|-|: error C2065: x"),
            ("   --> src/a.rs:3:5", "   --> |src/a.rs|3|5|"),
            ("    at f (/p/a.js:3:5)", "    at f (|/p/a.js|3|5|)"),
            ("    at file:///p/a.mjs:3:5", "    at |file:///p/a.mjs|3|5|"),
            ("  File \"/p/my dir/a.py\", line 3, in f", "  |/p/my dir/a.py|3|-|, in f"),
            ("PHP Fatal error: x in /p/a.php on line 3", "PHP Fatal error: x in |/p/a.php|3|-|"),
            ("run.sh: line 3: foo: command not found", "|run.sh|3|-|: foo: command not found"),
            ("C:\\p\\a.cs(3,5): error CS1: x", "|C:\\p\\a.cs|3|5|: error CS1: x"),
            ("\t/p/cart.go:14 +0x1d", "\t|/p/cart.go|14|-| +0x1d"),
            ("Makefile:2: *** missing separator", "|Makefile|2|-|: *** missing separator"),
            ("lib/page.heex:7: x", "|lib/page.heex|7|-|: x"),
            ("12:30:45 started", "-"),
            ("2024-01-01T12:30:45.123Z x", "-"),
            ("http://localhost:3000/a.js:3", "-"),
            ("https://example.com/a.html:8080", "-"),
            ("127.0.0.1:8080 refused", "-"),
            ("example.com:443 refused", "-"),
            ("localhost:3000", "-"),
            ("ratio 3:2, 16:9", "-"),
            ("v1.2.3:4", "-"),
            ("    at node:internal/modules/cjs/loader:1521:14", "-"),
            ("std::vec::Vec:3", "-"),
            ("[::1]:80", "-"),
            ("a.rs:0", "-"),
            ("a.rs:99999999999", "-"),
            ("a.rs:12ms", "-"),
            ("user@host.rs:22", "|user@host.rs|22|-|"),
            ("redis.conf:6379", "|redis.conf|6379|-|"),
            (".:3", "-"),
            (".rs:3", "-"),
            (
                "app/[id]/(main)/page.tsx:3:5 - error TS1: x",
                "|app/[id]/(main)/page.tsx|3|5| - error TS1: x",
            ),
            ("a'b.py:1: error: x", "|a'b.py|1|-|: error: x"),
            ("'src/a.py:1", "'|src/a.py|1|-|"),
            ("", "-"),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
    }
}
