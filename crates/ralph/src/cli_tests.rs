use super::*;
use clap::error::ErrorKind;
use ralph_guard::RALPH_SUBCOMMANDS;

const COLUMNS: usize = 80;

fn add_subcommands(command: &clap::Command, prefix: &str, names: &mut Vec<String>) {
    for sub in command.get_subcommands() {
        let name = format!("{prefix}{}", sub.get_name());
        if sub.has_subcommands() {
            add_subcommands(sub, &format!("{name} "), names);
        } else {
            names.push(name);
        }
    }
}

/// A new subcommand is denied to agents until the guard's table states who may run it.
#[test]
fn the_guard_knows_every_subcommand() {
    let mut names = Vec::new();
    add_subcommands(&RalphCli::command(), "", &mut names);
    names.sort();
    let known: Vec<_> = RALPH_SUBCOMMANDS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, known);
}

#[test]
fn every_visible_command_is_in_one_group() {
    let command = RalphCli::command();
    let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let mut visible: Vec<_> = visible.map(clap::Command::get_name).collect();
    let mut grouped = command_groups::grouped_commands();
    visible.sort_unstable();
    grouped.sort_unstable();
    assert_eq!(grouped, visible);
}

/// The command lines of every command, from the whole program to the last subcommand.
fn command_paths(command: &clap::Command, prefix: &str, paths: &mut Vec<String>) {
    for sub in command.get_subcommands() {
        let path = format!("{prefix} {}", sub.get_name());
        command_paths(sub, &path, paths);
        paths.push(path);
    }
}

/// What `COMMAND --help` and `COMMAND -h` print at a terminal of 80 columns.
fn help_texts(path: &str) -> [String; 2] {
    ["--help", "-h"].map(|option| {
        let words: Vec<OsString> =
            path.split(' ').skip(1).chain([option]).map(Into::into).collect();
        let extent = command_groups::requested_extent(&words);
        let command = command_line(extent).term_width(COLUMNS);
        let words = std::iter::once("ralph".into()).chain(words);
        let shown = command.try_get_matches_from(words).unwrap_err();
        assert_eq!(shown.exit_code(), 0, "{path}: {shown}");
        term::strip_styles(&shown.render().to_string())
    })
}

fn all_paths() -> Vec<String> {
    let mut paths = vec!["ralph".to_string()];
    command_paths(&RalphCli::command(), "ralph", &mut paths);
    paths
}

fn text_after_help(path: &str) -> String {
    let all = RalphCli::command();
    let mut command = &all;
    for word in path.split(' ').skip(1) {
        command = command.find_subcommand(word).unwrap();
    }
    command.get_after_help().map(ToString::to_string).unwrap_or_default()
}

/// A line that wraps in a terminal of 80 columns cannot be copied, and is hard to read. `docs/cli.md` is the snapshot of
/// these texts.
#[test]
fn help_fits_80_columns() {
    let mut wide = Vec::new();
    for path in all_paths() {
        for help in help_texts(&path) {
            let lines = help.lines().filter(|line| line.chars().count() > COLUMNS);
            wide.extend(lines.map(|line| format!("{path}: {line}")));
        }
        // clap would break longer lines, also within an example.
        let text = text_after_help(&path);
        let lines = text.lines().filter(|line| line.chars().count() > COLUMNS);
        wide.extend(lines.map(|line| format!("{path}: {line}")));
    }
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}

/// The commands of a shell line that call ralph, as words.
fn ralph_calls(line: &str) -> Vec<Vec<String>> {
    let (mut calls, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some(open), _) if char == open => quote = None,
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, '\'' | '"') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            (None, '|' | '<' | '>' | ';' | '&') => {
                words.extend(word.take());
                calls.push(std::mem::take(&mut words));
            }
            (Some(_) | None, _) => word.get_or_insert_default().push(char),
        }
    }
    assert_eq!(quote, None, "an open quote in {line}");
    words.extend(word);
    calls.push(words);
    calls.retain(|words: &Vec<String>| words.first().is_some_and(|first| first == "ralph"));
    calls
}

/// The lines below `Examples:`; a line that ends with a backslash continues.
fn example_lines(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let text = lines.map(str::trim).collect::<Vec<_>>().join("\n");
    text.replace("\\\n", "").lines().map(str::to_string).collect()
}

/// Every example of every help is a command line that ralph accepts.
#[test]
fn every_example_can_be_parsed() {
    let (mut wrong, mut without) = (Vec::new(), Vec::new());
    for path in all_paths() {
        let examples = example_lines(&text_after_help(&path));
        if examples.is_empty() && path != "ralph hook" {
            without.push(path.clone());
        }
        for line in examples {
            for call in ralph_calls(&line) {
                if let Err(error) = RalphCli::command().try_get_matches_from(&call) {
                    wrong.push(format!("{path}: {line}\n{error}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(without.is_empty(), "no examples: {without:?}");
}

/// The code spans of a page that call ralph; a code block has no spans.
fn inline_calls(page: &str) -> Vec<String> {
    let mut calls = Vec::new();
    let prose = page.split("```").step_by(2);
    for paragraph in prose.flat_map(|text| text.split("\n\n")) {
        let joined = paragraph.replace('\n', " ");
        let spans = joined.split('`').skip(1).step_by(2);
        // Messages and the status line begin with the name of the program, too.
        let is_message = |span: &str| {
            ["ralph k7f2 ", "ralph · ", "ralph gates off", "ralph is "]
                .iter()
                .any(|start| span.starts_with(start))
        };
        let spans = spans.filter(|span| !is_message(span));
        calls.extend(spans.filter(|span| span.starts_with("ralph ")).map(str::to_string));
    }
    calls
}

/// Prose names commands with placeholders and without required arguments, but no command or option that does not exist.
#[test]
#[expect(clippy::disallowed_methods, reason = "the pages are files of the repository")]
fn every_command_in_the_prose_of_the_docs_exists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("SECURITY.md")];
    let docs = std::fs::read_dir(root.join("docs")).unwrap();
    pages.extend(docs.map(|entry| entry.unwrap().path()));
    pages.retain(|path| path.extension().is_some_and(|end| end == "md"));
    let (mut wrong, mut count) = (Vec::new(), 0);
    for page in pages {
        for call in inline_calls(&std::fs::read_to_string(&page).unwrap()) {
            count += 1;
            for words in ralph_calls(&call) {
                let parsed = RalphCli::command().try_get_matches_from(&words);
                let kind = parsed.err().map(|error| error.kind());
                if let Some(ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand) = kind
                    && !words.iter().any(|word| word == "…")
                {
                    wrong.push(format!("{}: {call}", page.display()));
                }
            }
        }
    }
    assert!(count > 300, "{count} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
