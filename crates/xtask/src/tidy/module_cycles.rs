//! Limits cycles between the top-level modules of a crate: a group of modules that all need each other can only be
//! understood as a whole.

use super::TidyFile;
use std::collections::{BTreeMap, BTreeSet};

const MOST_MODULES: usize = 8;

type ModuleGraph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

pub(crate) fn check_cycles(sources: &[TidyFile]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_rust() && !source.is_test()) {
        if let Some((name, path)) =
            source.path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/"))
        {
            let module = path.split('/').next().unwrap_or(path);
            let module = module.strip_suffix(".rs").unwrap_or(module);
            crates.entry(name).or_default().push((module, source.split().0));
        }
    }
    let mut complaints = Vec::new();
    for (name, files) in crates {
        let graph = module_graph(&files);
        if let Some(cycle) = largest_cycle(&graph)
            && cycle.len() > MOST_MODULES
        {
            let modules: Vec<_> = cycle.into_iter().collect();
            complaints.push(format!(
                "crates/{name}: {} modules in one cycle, at most {MOST_MODULES} are allowed: {}",
                modules.len(),
                modules.join(", ")
            ));
        }
    }
    complaints
}

fn module_graph<'a>(files: &[(&'a str, &'a str)]) -> ModuleGraph<'a> {
    let modules: BTreeSet<&str> =
        files.iter().map(|(module, _)| *module).filter(|module| *module != "lib").collect();
    let mut graph: ModuleGraph<'a> =
        modules.iter().map(|module| (*module, BTreeSet::new())).collect();
    for (module, text) in files {
        let Some(edges) = graph.get_mut(module) else { continue };
        for path in text.split("crate::").skip(1) {
            edges.extend(
                first_segments(path).filter(|name| name != module && modules.contains(name)),
            );
        }
    }
    graph
}

/// The first segment of a path, or of each path in a group such as `{a::B, c::{D, E}}`.
fn first_segments(path: &str) -> impl Iterator<Item = &str> {
    let is_name = |char: char| char.is_alphanumeric() || char == '_';
    let group = path.strip_prefix('{').map(|rest| {
        let mut depth = 1_i32;
        let end = rest.find(|char| {
            depth += i32::from(char == '{') - i32::from(char == '}');
            depth == 0
        });
        rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
    });
    let mut depth = 0_i32;
    let parts: Vec<&str> = match group {
        Some(group) => group
            .split(move |char| {
                depth += i32::from(char == '{') - i32::from(char == '}');
                char == ',' && depth == 0
            })
            .collect(),
        None => vec![path],
    };
    parts.into_iter().filter_map(move |part| {
        let part = part.trim_start();
        part.get(..part.find(|char| !is_name(char)).unwrap_or(part.len()))
    })
}

/// The largest set of modules that reach each other.
fn largest_cycle<'a>(graph: &ModuleGraph<'a>) -> Option<BTreeSet<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&'a str>> =
        graph.keys().map(|module| (*module, reachable(graph, module))).collect();
    let cycles = graph.keys().map(|module| {
        let mutual = reached[module].iter().filter(|other| reached[*other].contains(module));
        mutual.copied().collect::<BTreeSet<&str>>()
    });
    cycles.max_by_key(BTreeSet::len)
}

fn reachable<'a>(graph: &ModuleGraph<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut pending: Vec<&str> = vec![from];
    while let Some(module) = pending.pop() {
        for next in &graph[module] {
            if reached.insert(*next) {
                pending.push(next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_cycle_is_reported_with_its_modules() {
        let name = |number: usize| format!("m{number}");
        let ring = |count: usize| -> Vec<TidyFile> {
            let file = |number| TidyFile {
                path: format!("crates/a/src/{}.rs", name(number)),
                text: format!("use crate::{{{}::X, lib::{{Y}}}};\n", name((number + 1) % count)),
            };
            (0..count).map(file).collect()
        };
        assert_eq!(check_cycles(&ring(8)), [""; 0]);
        assert_eq!(
            check_cycles(&ring(9)),
            ["crates/a: 9 modules in one cycle, at most 8 are allowed: \
              m0, m1, m2, m3, m4, m5, m6, m7, m8"]
        );
        let mut chain = ring(9);
        chain.pop();
        assert_eq!(check_cycles(&chain), [""; 0]);
    }
}
