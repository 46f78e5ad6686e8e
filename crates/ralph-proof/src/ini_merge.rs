//! Merges two versions of `setup.cfg`: the sections about tests and tools of one with the other sections of the other.

/// Sections that test runners, linters and type checkers read.
const HARNESS_SECTIONS: [&str; 15] = [
    "tool:pytest",
    "pytest",
    "coverage",
    "tox",
    "testenv",
    "flake8",
    "pycodestyle",
    "pydocstyle",
    "pylint",
    "pylint-",
    "mypy",
    "mypy-",
    "isort",
    "aliases",
    "nosetests",
];

/// A file with more sections is assumed to be generated.
const MAX_SECTIONS: usize = 1000;

struct IniSection<'a> {
    /// Empty for the lines before the first header.
    name: &'a str,
    /// Its header and the lines up to the next one.
    text: &'a str,
}

/// The code side with the harness sections of the test side. `None` if these sections are the same in both.
pub(crate) fn merge_ini(code: &str, tests: &str) -> Result<Option<String>, String> {
    let ours = split_sections(code)?;
    let theirs = split_sections(tests)?;
    let find = |sections: &[IniSection<'_>], name: &str| {
        sections.iter().position(|section| section.name == name)
    };
    let mut out = String::with_capacity(code.len());
    for section in &ours {
        match find(&theirs, section.name).and_then(|at| theirs.get(at)) {
            _ if !is_harness(section.name) => out.push_str(section.text),
            Some(other) if other.text.trim_end() == section.text.trim_end() => {
                out.push_str(section.text);
            }
            Some(other) => push_section(&mut out, other.text),
            None => {}
        }
    }
    for section in theirs.iter().filter(|section| is_harness(section.name)) {
        if find(&ours, section.name).is_none() {
            push_section(&mut out, section.text);
        }
    }
    Ok((out != code).then_some(out))
}

fn push_section(out: &mut String, text: &str) {
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    out.push_str(text);
}

/// `[coverage:run]` and `[mypy-numpy.*]` belong to the tool that they begin with.
fn is_harness(name: &str) -> bool {
    HARNESS_SECTIONS.iter().any(|section| {
        name.strip_prefix(section)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(':') || section.ends_with('-'))
    })
}

fn split_sections(text: &str) -> Result<Vec<IniSection<'_>>, String> {
    let mut starts = vec![("", 0)];
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        // A continuation line is indented, so it cannot be mistaken for a header.
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let name = name.trim();
            if starts.iter().any(|(other, _)| *other == name) {
                return Err(format!("section `[{name}]` occurs twice"));
            }
            starts.push((name, at));
            if starts.len() > MAX_SECTIONS {
                return Err(format!("it has more than {MAX_SECTIONS} sections"));
            }
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).map(|(_, start)| *start).chain([text.len()]);
    let sections = starts.iter().zip(ends).map(|((name, start), end)| IniSection {
        name,
        text: text.get(*start..end).unwrap_or_default(),
    });
    Ok(sections.collect())
}
