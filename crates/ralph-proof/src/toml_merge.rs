//! Merges two versions of `Cargo.toml` or `pyproject.toml`: the sections about tests and tools of one with the other
//! sections of the other.

use toml::{Table, Value};
use toml_edit::{Array, DocumentMut, Item, TableLike};

/// Sections of `pyproject.toml` that go with the tests: settings of runners, linters and type checkers, task runners,
/// and the dependencies of tests, which new tests must find beside old code.
const PYPROJECT_PATHS: [&[&str]; 36] = [
    &["tool", "pytest"],
    &["tool", "coverage"],
    &["tool", "tox"],
    &["tool", "nox"],
    &["tool", "hypothesis"],
    &["tool", "mutmut"],
    &["tool", "ruff"],
    &["tool", "flake8"],
    &["tool", "pylint"],
    &["tool", "black"],
    &["tool", "isort"],
    &["tool", "bandit"],
    &["tool", "mypy"],
    &["tool", "pyright"],
    &["tool", "basedpyright"],
    &["tool", "ty"],
    &["tool", "poe"],
    &["tool", "taskipy"],
    &["tool", "doit"],
    &["tool", "hatch", "envs"],
    &["tool", "pdm", "scripts"],
    &["tool", "pdm", "dev-dependencies"],
    &["tool", "uv", "dev-dependencies"],
    &["tool", "poetry", "group"],
    &["tool", "poetry", "dev-dependencies"],
    &["dependency-groups"],
    &["tool", "uv", "default-groups"],
    &["tool", "uv", "dependency-groups"],
    &["project", "optional-dependencies", "test"],
    &["project", "optional-dependencies", "tests"],
    &["project", "optional-dependencies", "testing"],
    &["project", "optional-dependencies", "dev"],
    &["tool", "poetry", "extras", "test"],
    &["tool", "poetry", "extras", "tests"],
    &["tool", "poetry", "extras", "testing"],
    &["tool", "poetry", "extras", "dev"],
];

/// Sections of `Cargo.toml` that go with the tests. `[[bench]]` is code, like the files that it names. Profiles are
/// included because they can turn off assertions and overflow checks.
const CARGO_PATHS: [&[&str]; 9] = [
    &["dev-dependencies"],
    &["test"],
    &["profile"],
    &["lints"],
    &["workspace", "lints"],
    &["package", "autotests"],
    &["lib", "test"],
    &["lib", "doctest"],
    &["lib", "harness"],
];
/// Targets that are code, but have flags about tests.
const CARGO_TARGETS: [&str; 3] = ["bin", "example", "bench"];
const TARGET_FLAGS: [&str; 3] = ["test", "doctest", "harness"];

/// Sets a value or, if it is `None`, removes it.
struct TomlEdit {
    path: Vec<PathStep>,
    value: Option<Value>,
}

#[derive(Clone, PartialEq, Eq)]
enum PathStep {
    Key(String),
    /// An entry of an array of tables.
    Index(usize),
}

/// The code side with the harness sections of the test side. `None` if these sections are the same in both.
pub(crate) fn merge_toml(name: &str, code: &str, tests: &str) -> Result<Option<String>, String> {
    let ours = parse_plain(code)?;
    let theirs = parse_plain(tests)?;
    // Other packages in the place of those that the tests use.
    if ["patch", "replace"].iter().any(|key| ours.get(*key) != theirs.get(*key)) {
        return Err("it replaces packages".to_string());
    }
    let edits = if name == "Cargo.toml" {
        cargo_edits(&ours, &theirs)
    } else {
        path_edits(&ours, &theirs, &PYPROJECT_PATHS)
    };
    if edits.is_empty() {
        return Ok(None);
    }
    let mut document: DocumentMut = code.parse().map_err(|_| INVALID)?;
    let source: DocumentMut = tests.parse().map_err(|_| INVALID)?;
    let mut expected = ours.clone();
    for edit in &edits {
        apply_plain(&mut expected, edit);
        apply_edit(&mut document, &source, &theirs, edit).ok_or(NOT_MERGED)?;
    }
    let text = document.to_string();
    let merged = parse_plain(&text).map_err(|_| NOT_MERGED)?;
    if without_empty_tables(&merged) == without_empty_tables(&expected) {
        Ok(Some(text))
    } else {
        Err(NOT_MERGED.to_string())
    }
}

const INVALID: &str = "it is not valid TOML";
const NOT_MERGED: &str = "its sections cannot be merged";

fn parse_plain(text: &str) -> Result<Table, String> {
    text.parse().map_err(|_| INVALID.to_string())
}

fn key_path(path: &[&str]) -> Vec<PathStep> {
    path.iter().map(|key| PathStep::Key((*key).to_string())).collect()
}

fn value_at<'a>(table: &'a Table, path: &[PathStep]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let PathStep::Key(first) = first else { return None };
    rest.iter().try_fold(table.get(first)?, |value, step| match step {
        PathStep::Key(key) => value.get(key),
        PathStep::Index(index) => value.get(index),
    })
}

fn path_edits(ours: &Table, theirs: &Table, paths: &[&[&str]]) -> Vec<TomlEdit> {
    let edits = paths.iter().filter_map(|path| {
        let path = key_path(path);
        let value = value_at(theirs, &path);
        (value_at(ours, &path) != value).then(|| TomlEdit { value: value.cloned(), path })
    });
    edits.collect()
}

fn cargo_edits(ours: &Table, theirs: &Table) -> Vec<TomlEdit> {
    let mut edits = path_edits(ours, theirs, &CARGO_PATHS);
    let targets = |table: &Table| -> Vec<String> {
        let found = table.get("target").and_then(Value::as_table);
        found.map(|found| found.keys().cloned().collect()).unwrap_or_default()
    };
    let mut platforms = targets(ours);
    platforms.extend(targets(theirs));
    platforms.sort();
    platforms.dedup();
    for platform in &platforms {
        edits.extend(path_edits(ours, theirs, &[&["target", platform, "dev-dependencies"]]));
    }
    edits.extend(target_flag_edits(ours, theirs));
    edits.extend(default_feature_edit(ours, theirs));
    // Development dependencies may be inherited from the workspace, which must then declare them. Declarations of the
    // code side take precedence.
    let declared = |table| value_at(table, &key_path(&["workspace", "dependencies"]));
    let known = declared(ours).and_then(Value::as_table);
    for (name, value) in declared(theirs).and_then(Value::as_table).into_iter().flatten() {
        if known.is_some_and(|known| !known.contains_key(name)) {
            let path = key_path(&["workspace", "dependencies", name]);
            edits.push(TomlEdit { path, value: Some(value.clone()) });
        }
    }
    edits
}

/// Edits flags such as `test = false` of the binaries, examples and benches that both versions have, by name.
fn target_flag_edits(ours: &Table, theirs: &Table) -> Vec<TomlEdit> {
    let mut edits = Vec::new();
    for kind in CARGO_TARGETS {
        let entries = |table: &Table| -> Vec<Value> {
            table.get(kind).and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let others = entries(theirs);
        for (index, entry) in entries(ours).iter().enumerate() {
            let other = others.iter().find(|other| other.get("name") == entry.get("name"));
            for flag in TARGET_FLAGS {
                let value = other.and_then(|other| other.get(flag));
                // A target that only the code side has keeps its flags.
                if other.is_some() && entry.get(flag) != value {
                    let mut path = key_path(&[kind]);
                    path.extend([PathStep::Index(index), PathStep::Key(flag.to_string())]);
                    edits.push(TomlEdit { path, value: value.cloned() });
                }
            }
        }
    }
    edits
}

/// Takes the default features of the test side, except those that the code side does not have: Cargo would reject them,
/// which would look like a failing test.
fn default_feature_edit(ours: &Table, theirs: &Table) -> Option<TomlEdit> {
    let path = key_path(&["features", "default"]);
    let list =
        |table| value_at(table, &path).and_then(Value::as_array).cloned().unwrap_or_default();
    let features = ours.get("features").and_then(Value::as_table);
    let is_known = |feature: &Value| {
        let name = feature.as_str().unwrap_or_default();
        let dependency = name.strip_prefix("dep:").unwrap_or(name);
        let dependency = dependency.split(['/', '?']).next().unwrap_or_default();
        features.is_some_and(|features| features.contains_key(name))
            || ["dependencies", "build-dependencies"]
                .iter()
                .any(|kind| value_at(ours, &key_path(&[kind, dependency])).is_some())
    };
    let wanted: Vec<Value> = list(theirs).into_iter().filter(is_known).collect();
    let is_same = list(ours) == wanted;
    (!is_same).then(|| TomlEdit { path: path.clone(), value: Some(Value::Array(wanted)) })
}

fn apply_plain(table: &mut Table, edit: &TomlEdit) {
    let Some((PathStep::Key(last), parents)) = edit.path.split_last() else { return };
    let Some((PathStep::Key(first), rest)) = parents.split_first() else {
        set_plain(table, last, edit.value.as_ref());
        return;
    };
    if edit.value.is_none() && value_at(table, parents).is_none() {
        return;
    }
    let mut here = table.entry(first.clone()).or_insert_with(|| Value::Table(Table::new()));
    for step in rest {
        let next = match (step, here) {
            (PathStep::Key(key), Value::Table(table)) => {
                Some(table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new())))
            }
            (PathStep::Index(index), Value::Array(array)) => array.get_mut(*index),
            _ => None,
        };
        let Some(next) = next else { return };
        here = next;
    }
    if let Value::Table(table) = here {
        set_plain(table, last, edit.value.as_ref());
    }
}

fn set_plain(table: &mut Table, key: &str, value: Option<&Value>) {
    match value {
        Some(value) => table.insert(key.to_string(), value.clone()),
        None => table.remove(key),
    };
}

fn apply_edit(
    document: &mut DocumentMut,
    source: &DocumentMut,
    theirs: &Table,
    edit: &TomlEdit,
) -> Option<()> {
    let (PathStep::Key(last), parents) = edit.path.split_last()? else { return None };
    let mut here: &mut dyn TableLike = document.as_table_mut();
    let mut is_inline = false;
    let mut steps = parents.iter();
    while let Some(PathStep::Key(key)) = steps.next() {
        if edit.value.is_none() && !here.contains_key(key) {
            return Some(());
        }
        let item = here.entry(key).or_insert_with(|| {
            let mut table = toml_edit::Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        is_inline = matches!(item, Item::Value(_));
        here = match item {
            Item::ArrayOfTables(entries) => match steps.next() {
                Some(PathStep::Index(index)) => entries.get_mut(*index)?,
                Some(PathStep::Key(_)) | None => return None,
            },
            item @ (Item::None | Item::Value(_) | Item::Table(_)) => item.as_table_like_mut()?,
        };
    }
    match &edit.value {
        None => {
            here.remove(last);
        }
        Some(value) => {
            let item = match source_item(source, &edit.path) {
                Some(item) if value_at(theirs, &edit.path) == Some(value) => detach(item.clone()),
                Some(_) | None => plain_item(value)?,
            };
            // A table with a header cannot be inside an inline one.
            let item = if is_inline { Item::Value(item.into_value().ok()?) } else { item };
            // Replacing the value keeps the position and the comments of the key.
            if let Some(old) = here.get_mut(last) {
                *old = item;
            } else {
                here.insert(last, item);
            }
        }
    }
    Some(())
}

fn source_item<'a>(source: &'a DocumentMut, path: &[PathStep]) -> Option<&'a Item> {
    path.iter().try_fold(source.as_item(), |item, step| match step {
        PathStep::Key(key) => item.get(key),
        PathStep::Index(index) => item.get(*index),
    })
}

/// Removes the position in the original document, so that the item is printed where it is inserted.
fn detach(mut item: Item) -> Item {
    match &mut item {
        Item::Table(table) => detach_table(table),
        Item::ArrayOfTables(tables) => tables.iter_mut().for_each(detach_table),
        Item::None | Item::Value(_) => {}
    }
    item
}

fn detach_table(table: &mut toml_edit::Table) {
    table.set_position(None);
    for (_, item) in table.iter_mut() {
        *item = detach(std::mem::take(item));
    }
}

fn plain_item(value: &Value) -> Option<Item> {
    match value {
        Value::Boolean(flag) => Some(toml_edit::value(*flag)),
        Value::Array(values) => {
            let texts: Option<Array> = values.iter().map(Value::as_str).collect();
            Some(toml_edit::value(texts?))
        }
        Value::String(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Datetime(_)
        | Value::Table(_) => None,
    }
}

/// An empty table means the same as none.
fn without_empty_tables(table: &Table) -> Table {
    let kept = table.iter().filter_map(|(key, value)| match value {
        Value::Table(inner) => {
            let inner = without_empty_tables(inner);
            (!inner.is_empty()).then(|| (key.clone(), Value::Table(inner)))
        }
        Value::String(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Datetime(_)
        | Value::Array(_) => Some((key.clone(), value.clone())),
    });
    kept.collect()
}
