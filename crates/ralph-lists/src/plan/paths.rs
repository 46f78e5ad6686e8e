//! Finds paths in prose. The guess is conservative: a missed path does no harm, a made-up one would cause a false report.

const MAX_PATHS: usize = 16;
const MAX_PATH_BYTES: usize = 200;
const FILE_EXTENSIONS: [&str; 66] = [
    "bash", "bats", "c", "cc", "cfg", "cjs", "clj", "cpp", "cs", "css", "csv", "dart", "env",
    "erl", "ex", "exs", "fs", "go", "gradle", "graphql", "h", "hpp", "hs", "html", "ini", "ipynb",
    "java", "jl", "js", "json", "jsonl", "jsx", "kt", "kts", "less", "lock", "lua", "md", "mdx",
    "mjs", "ml", "nix", "php", "proto", "py", "pyi", "r", "rb", "rs", "sass", "scala", "scss",
    "sh", "snap", "sol", "sql", "svelte", "swift", "tf", "toml", "ts", "tsx", "txt", "vue", "yaml",
    "yml",
];
const FILES_WITHOUT_EXTENSION: [&str; 7] =
    ["Dockerfile", "Gemfile", "Jenkinsfile", "Justfile", "Makefile", "Procfile", "Rakefile"];
/// Directories that make a word a path even without an extension: `src/parser`, unlike `read/write`.
const TOP_DIRECTORIES: [&str; 28] = [
    ".claude",
    ".github",
    "app",
    "apps",
    "assets",
    "backend",
    "bin",
    "cmd",
    "components",
    "config",
    "crates",
    "docs",
    "examples",
    "frontend",
    "internal",
    "lib",
    "migrations",
    "packages",
    "pages",
    "pkg",
    "public",
    "scripts",
    "spec",
    "specs",
    "src",
    "templates",
    "test",
    "tests",
];
/// Products that look like files: `Node.js`.
const PRODUCTS: [&str; 17] = [
    "alpine", "angular", "backbone", "chart", "d3", "discord", "ember", "express", "moment",
    "next", "node", "nuxt", "p5", "react", "solid", "three", "vue",
];

/// Adds the paths among the words of a text.
pub(super) fn add_paths_from(text: &str, names: &mut Vec<String>) {
    for word in text.split_whitespace() {
        if names.len() >= MAX_PATHS {
            return;
        }
        if let Some(path) = parse_path(word)
            && !names.contains(&path)
        {
            names.push(path);
        }
    }
}

fn parse_path(word: &str) -> Option<String> {
    let word = word
        .trim_start_matches(['(', '[', '"', '\'', '*', '_', '`'])
        .trim_end_matches([')', ',', '.', ';', ':', '!', '?', '"', '\'', '*', '`']);
    let word = strip_line_reference(word);
    let word = word.strip_prefix("./").unwrap_or(word);
    let is_plain = |char: char| char.is_alphanumeric() || "_-./+[]*{},?".contains(char);
    if word.is_empty()
        || word.len() > MAX_PATH_BYTES
        || word.starts_with(['/', '-'])
        || word.contains("//")
        || word.contains("..")
        || !word.chars().all(is_plain)
    {
        return None;
    }
    if let Some(at) = word.find(['*', '{', '?', ',']) {
        // For a glob, the directory before its first wildcard.
        let directory = &word[..=word[..at].rfind('/')?];
        return looks_like_path(directory).then(|| directory.to_string());
    }
    looks_like_path(word).then(|| word.to_string())
}

/// Strips a line reference: `:88`, `:88-97`, `:88:5` or `#L88`.
fn strip_line_reference(word: &str) -> &str {
    let at = word.find([':', '#']).unwrap_or(word.len());
    let (path, line) = word.split_at(at);
    let is_line = |char: char| char.is_ascii_digit() || ":-#L".contains(char);
    if line.chars().all(is_line) { path } else { word }
}

fn looks_like_path(word: &str) -> bool {
    let (parent, last) = word.rsplit_once('/').unwrap_or(("", word));
    if FILES_WITHOUT_EXTENSION.contains(&last) {
        return true;
    }
    let is_file = last.rsplit_once('.').is_some_and(|(stem, extension)| {
        let is_product = extension == "js" && PRODUCTS.contains(&stem.to_lowercase().as_str());
        let is_bare = stem.is_empty() || is_product;
        FILE_EXTENSIONS.contains(&extension) && !(is_bare && parent.is_empty())
    });
    let first = word.split('/').next().unwrap_or_default();
    let is_directory = !parent.is_empty() && (last.is_empty() || TOP_DIRECTORIES.contains(&first));
    is_file || is_directory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_distinguished_from_words() {
        for (text, expected) in [
            ("Fix src/parser.rs and (tests/parser.rs).", "src/parser.rs tests/parser.rs"),
            ("README.md, Makefile; `Cargo.toml`", "README.md Makefile Cargo.toml"),
            (
                "see src/a.rs:88, src/b.rs:1-9 src/c.rs#L4 src/d.rs:3:4",
                "src/a.rs src/b.rs src/c.rs src/d.rs",
            ),
            ("./src/parser/ src/lexer", "src/parser/ src/lexer"),
            ("src/**/*.ts and *.rs and tests/{a,b}.py", "src/ tests/"),
            ("app/[id]/page.tsx", "app/[id]/page.tsx"),
            ("read/write and/or TCP/IP 5/10 I/O client/server", ""),
            ("Node.js Next.js node.js vue.js 1.2.3 e.g. v0.9", ""),
            ("https://example.org/a.md /etc/passwd ../up.rs ~/x.rs a//b.rs", ""),
            ("user@example.rs $HOME/a.rs a=b.rs -x.rs .rs", ""),
            ("src\\a.rs <src/a.rs>", ""),
            ("src/a.rs src/a.rs", "src/a.rs"),
            ("äöü/straße.rs", "äöü/straße.rs"),
        ] {
            let mut names = Vec::new();
            add_paths_from(text, &mut names);
            assert_eq!(names.join(" "), expected, "{text}");
        }
        let mut names = Vec::new();
        let many: Vec<_> = (0..100).map(|number| format!("src/{number}.rs")).collect();
        add_paths_from(&many.join(" "), &mut names);
        assert_eq!(names.len(), MAX_PATHS);
    }
}
