//! The examples in the documentation: code blocks of Markdown pages, their commands and their output.

use regex::Regex;

/// A fenced code block of a page.
pub struct CodeBlock {
    /// Counted from 1.
    pub first_line: usize,
    pub language: String,
    pub lines: Vec<String>,
}

/// A command line that a page or a help text shows, and the output that follows it.
#[derive(Clone)]
pub struct ShownCommand {
    pub line: String,
    pub output: Vec<String>,
}

pub fn code_blocks(page: &str) -> Vec<CodeBlock> {
    let mut blocks = Vec::new();
    let mut open: Option<CodeBlock> = None;
    for (index, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => {
                let first_line = index.saturating_add(2);
                let language = language.trim().to_string();
                open = Some(CodeBlock { first_line, language, lines: Vec::new() });
            }
            (None, Some(block)) => block.lines.push(line.to_string()),
            (None, None) => {}
        }
    }
    blocks
}

impl CodeBlock {
    /// Whether it shows commands and their output, each command after a `$`.
    pub fn is_transcript(&self) -> bool {
        self.lines.iter().any(|line| line.starts_with("$ "))
    }

    /// Whether it consists of commands to paste.
    pub fn is_script(&self) -> bool {
        const PROGRAMS: [&str; 9] =
            ["ralph", "cargo", "cat", "cp", "git", "mkdir", "cd", "touch", "printf"];
        let first = self.lines.first().and_then(|line| line.split(' ').next());
        ["", "sh", "console"].contains(&self.language.as_str())
            && first.is_some_and(|word| PROGRAMS.contains(&word))
    }

    pub fn transcript(&self) -> Vec<ShownCommand> {
        let mut commands: Vec<ShownCommand> = Vec::new();
        for line in &self.lines {
            let unfinished = commands.last().is_some_and(|last| last.line.ends_with('\\'));
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(line), _) => {
                    commands.push(ShownCommand { line: line.to_string(), output: Vec::new() });
                }
                (None, Some(last)) if unfinished => last.line.push_str(&format!("\n{line}")),
                (None, Some(last)) => last.output.push(line.clone()),
                (None, None) => panic!("output before the first command: {line}"),
            }
        }
        commands
    }
}

/// The lines as commands, without comments; a line that ends with a backslash continues.
pub fn command_lines(lines: &[String]) -> Vec<String> {
    let text = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n");
    let comment = Regex::new(r"\s+# .*$").unwrap();
    let lines = text.replace(" \\\n", " ").replace("\\\n", "");
    let lines = lines.lines().map(|line| comment.replace(line, "").trim().to_string());
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// The examples of a help text in `docs/cli.md`.
pub fn help_examples(help: &[String]) -> Vec<String> {
    let lines = help.iter().skip_while(|line| *line != "Examples:").skip(1);
    let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).cloned().collect();
    command_lines(&lines)
}

/// Replaces whatever differs from one run to the next: times, durations, sizes and their counts, hashes and
/// column widths.
pub fn mask_varying(line: &str) -> String {
    const MASKS: [(&str, &str); 10] = [
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "[uuid]"),
        (r"\b\d{8}-\d{6}-", "[stamp]-"),
        (r"\b[0-9a-f]{7,64}\b(…)?", "[hash]"),
        (r"\b\d\d:\d\d:\d\d\b", "[time]"),
        (r"\b\d+(\.\d+)? (ms|s|min)\b", "[span]"),
        (r"\b(\d+(\.\d+)? (B|KiB|MiB|GiB))\b", "[size]"),
        (r"(\[span\] )+", "[span] "),
        (r" {2,}", "  "),
        (r"\b\d+  \[size\]", "[count]  [size]"),
        (r"\b\d+ items\b", "[count] items"),
    ];
    let mut line = line.trim_end().to_string();
    for (pattern, mask) in MASKS {
        line = Regex::new(pattern).unwrap().replace_all(&line, mask).into_owned();
    }
    line.trim_end().to_string()
}

/// Whether the real output is the shown one. A shown line `…` stands for any lines, and a `…` at the end of a line for
/// the rest of the line.
pub fn is_same_output(shown: &[String], real: &[String]) -> bool {
    let Some((first, rest)) = shown.split_first() else { return real.is_empty() };
    if first.trim() == "…" {
        return (0..=real.len()).any(|skipped| is_same_output(rest, &real[skipped..]));
    }
    let Some((line, others)) = real.split_first() else { return false };
    let (first, line) = (mask_varying(first), mask_varying(line));
    let same = match first.strip_suffix('…') {
        Some(start) => line.starts_with(start),
        None => first == line,
    };
    same && is_same_output(rest, others)
}
