//! Programs that change files, and which of their arguments are the changed files.

use super::denial_text::deny;
use super::guarded_path::{PathPattern, PathUse, guarded_target};
use super::options::{CommandArg, ParsedOptions, parse_options};
use super::shell_state::ShellState;
use super::word_expansion::WordSpelling;
use super::{DeniedCall, GuardTarget, find_command};
use alloc::string::String;
use alloc::vec::Vec;

pub(super) fn judge_file_program(
    program: &str,
    args: &[CommandArg<'_>],
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    match program {
        "rm" | "unlink" | "shred" | "srm" | "trash" | "trash-put" | "rmdir" => {
            let options = parse_options(args, &[], shell);
            let is_deep = options.has("rR", "recursive") || program.starts_with("trash");
            let touch = if is_deep { PathUse::Remove } else { PathUse::Write };
            judge_operands(&options, (touch, program), shell)
        }
        "mv" | "gmv" => {
            let options = parse_options(args, &["t", "S", "target-directory", "suffix"], shell);
            let away = source_operands(&options).iter();
            away.copied()
                .find_map(|arg| shell.objection(PathUse::Remove, &arg.spellings, program))
                .or_else(|| judge_target(&options, program, shell))
        }
        "cp" | "gcp" => {
            let options = parse_options(args, &["t", "S", "target-directory", "suffix"], shell);
            judge_key_copy(&options, program, shell)
                .or_else(|| judge_target(&options, program, shell))
        }
        "scp" | "rsync" => {
            let options =
                parse_options(args, &["e", "f", "rsh", "exclude", "include", "filter"], shell);
            judge_key_copy(&options, program, shell)
                .or_else(|| judge_target(&options, program, shell))
        }
        "install" | "ginstall" => {
            let options =
                parse_options(args, &["t", "S", "g", "m", "o", "target-directory", "mode"], shell);
            if options.has("d", "directory") {
                return judge_operands(&options, (PathUse::Write, program), shell);
            }
            judge_target(&options, program, shell)
        }
        "ln" | "gln" => {
            let options = parse_options(args, &["t", "S", "target-directory", "suffix"], shell);
            judge_links(&options, program, shell).or_else(|| judge_target(&options, program, shell))
        }
        "truncate" | "fallocate" => {
            judge_all_operands(args, (&["s", "r", "l", "o", "size", "reference"], program), shell)
        }
        "touch" => {
            judge_all_operands(args, (&["d", "r", "t", "date", "reference"], program), shell)
        }
        "chmod" | "chown" | "chgrp" | "chattr" | "setfacl" | "mkfifo" | "mknod" => {
            judge_all_operands(args, (&["reference"], program), shell)
        }
        "mkdir" => judge_all_operands(args, (&["m", "Z", "mode"], program), shell),
        "tee" | "sponge" | "ed" | "ex" => judge_all_operands(args, (&["c"], program), shell),
        "patch" => judge_all_operands(
            args,
            (&["p", "i", "d", "o", "r", "B", "F", "input", "directory"], program),
            shell,
        ),
        "dd" => args.iter().find_map(|arg| {
            shell.objection(PathUse::Write, &arg.spellings_after("of=", shell), "dd of=")
        }),
        "curl" => {
            judge_output_options(args, (&["o", "output"], &CURL_VALUE_OPTIONS), shell, program)
        }
        "wget" => judge_output_options(
            args,
            (&["O", "P", "output-document", "directory-prefix"], &[]),
            shell,
            program,
        ),
        "sort" => {
            judge_output_options(args, (&["o", "output"], &["k", "t", "S", "T"]), shell, program)
        }
        "unzip" => judge_output_options(args, (&["d"], &[]), shell, program),
        "tar" | "bsdtar" | "gtar" => judge_tar(args, shell),
        "find" | "gfind" => find_command::judge_find(args, shell),
        "fd" | "fdfind" => find_command::judge_fd(args, shell),
        "sed" | "gsed" | "perl" | "ruby" | "awk" | "gawk" | "yq" => {
            judge_in_place(program, args, shell)
        }
        _ => None,
    }
}

/// Options of `curl` with a value that could look like an operand.
const CURL_VALUE_OPTIONS: [&str; 12] =
    ["H", "d", "X", "u", "A", "b", "F", "e", "m", "w", "header", "data"];

fn judge_operands(
    options: &ParsedOptions<'_>,
    (touch, how): (PathUse, &str),
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    options.operands.iter().find_map(|arg| shell.objection(touch, &arg.spellings, how))
}

fn judge_all_operands(
    args: &[CommandArg<'_>],
    (valued, how): (&[&str], &str),
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    judge_operands(&parse_options(args, valued, shell), (PathUse::Write, how), shell)
}

fn judge_output_options(
    args: &[CommandArg<'_>],
    (files, valued): (&[&str], &[&str]),
    shell: &ShellState<'_>,
    how: &str,
) -> Option<DeniedCall> {
    let valued: Vec<&str> = files.iter().chain(valued).copied().collect();
    shell.objection(PathUse::Write, &parse_options(args, &valued, shell).values_of(files), how)
}

/// All but the last operand, unless an option names the target.
fn source_operands<'a, 'b>(options: &'b ParsedOptions<'a>) -> &'b [&'a CommandArg<'a>] {
    match options.operands.split_last() {
        _ if !options.values_of(&["t", "target-directory"]).is_empty() => &options.operands,
        Some((_, sources)) => sources,
        None => &[],
    }
}

/// Judges the target (the last operand, or the directory given by an option) and the resulting paths in it.
fn judge_target(
    options: &ParsedOptions<'_>,
    how: &str,
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    let named = options.values_of(&["t", "target-directory"]);
    let (targets, sources) = match options.operands.split_last() {
        _ if !named.is_empty() => (named, options.operands.as_slice()),
        Some((last, [])) if how == "ln" => {
            (alloc::vec![WordSpelling::literal(".")], core::slice::from_ref(last))
        }
        Some((_, [])) | None => return None,
        Some((last, sources)) => (last.spellings.clone(), sources),
    };
    // `host:path` is on another machine.
    let is_remote =
        |target: &WordSpelling| matches!(how, "scp" | "rsync") && target.text.contains(':');
    let targets: Vec<WordSpelling> =
        targets.into_iter().filter(|target| !is_remote(target)).collect();
    let touch = if options.long.iter().any(|name| name.starts_with("delete")) {
        PathUse::Remove
    } else {
        PathUse::Write
    };
    if let Some(found) = shell.objection(touch, &targets, how) {
        return Some(found);
    }
    for source in sources.iter().flat_map(|arg| &arg.spellings).filter(|source| !source.is_open) {
        let name = source.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if matches!(name, "" | "." | "..") {
            continue;
        }
        let inside: Vec<WordSpelling> = targets
            .iter()
            .filter(|target| !target.is_open)
            .map(|target| WordSpelling {
                text: alloc::format!("{}/{name}", target.text),
                is_open: false,
            })
            .collect();
        if let Some(found) = shell.objection(PathUse::Write, &inside, how) {
            return Some(found);
        }
    }
    None
}

/// Denies copies of ralph's whole home, because they include the key.
fn judge_key_copy(
    options: &ParsedOptions<'_>,
    how: &str,
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    let is_deep = options.has("rRa", "recursive") || options.has_long("archive");
    let sources = source_operands(options).iter().filter(|_| is_deep);
    sources.flat_map(|arg| &arg.spellings).find_map(|spelling| {
        let mut place = PathPattern::resolve(spelling, shell.directory.as_ref())
            .filter(|_| !spelling.is_open)?;
        let is_home =
            guarded_target(&place, PathUse::Write, shell.ground) == Some(GuardTarget::Home);
        place.push("key");
        let has_key = guarded_target(&place, PathUse::Read, shell.ground) == Some(GuardTarget::Key);
        (is_home && has_key).then(|| deny(GuardTarget::Key, how, &spelling.plain()))
    })
}

/// Denies links to ralph's files, through which they could be written.
fn judge_links(
    options: &ParsedOptions<'_>,
    how: &str,
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    options.operands.iter().find_map(|arg| {
        shell
            .objection(PathUse::Write, &arg.spellings, how)
            .filter(|found| matches!(found.target, GuardTarget::Home | GuardTarget::Key))
    })
}

fn judge_tar(args: &[CommandArg<'_>], shell: &ShellState<'_>) -> Option<DeniedCall> {
    let options = parse_options(args, &["f", "C", "file", "directory", "exclude"], shell);
    // The old style: `tar xzf archive`.
    let bare =
        args.first().filter(|first| !first.text.starts_with('-')).map(|first| first.text.as_str());
    let is_unpacking = options.has("x", "extract")
        || options.has_long("get")
        || bare.is_some_and(|text| text.contains('x'));
    if !is_unpacking {
        return None;
    }
    let directories = options.values_of(&["C", "directory"]);
    let members = options.operands.iter().skip(if bare.is_some() { 2 } else { 0 });
    shell.objection(PathUse::Write, &directories, "tar -x").or_else(|| {
        if directories.is_empty() {
            return members
                .into_iter()
                .find_map(|arg| shell.objection(PathUse::Write, &arg.spellings, "tar -x"));
        }
        None
    })
}

/// Stream editors with an option to change the file in place.
fn judge_in_place(
    program: &str,
    args: &[CommandArg<'_>],
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    let script_letters = match program {
        "sed" | "gsed" => "ef",
        "perl" | "ruby" => "eE",
        _ => "f",
    };
    let mut has_script = !matches!(program, "sed" | "gsed" | "awk" | "gawk" | "yq");
    let mut is_in_place = false;
    let mut files: Vec<&CommandArg<'_>> = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let text = arg.text.as_str();
        match text.strip_prefix('-') {
            Some(long) if long.starts_with('-') => {
                is_in_place |= long.starts_with("-in-place") || long.starts_with("-inplace");
                has_script |= matches!(long, "-expression" | "-file") && rest.next().is_some()
                    || long.starts_with("-expression=");
            }
            Some("i") if program.ends_with("awk") => {
                is_in_place |= rest.next().is_some_and(|library| library.text == "inplace");
            }
            Some(letters) if !letters.is_empty() && !program.ends_with("awk") => {
                for (at, letter) in letters.char_indices() {
                    if letter == 'i' {
                        // The rest is the suffix of the backup, even in `perl -pie`.
                        is_in_place = true;
                        break;
                    }
                    // The rest is a library or a directory: `-Mstrict`, `-rjson`.
                    if matches!(letter, 'M' | 'm' | 'I' | 'F' | 'x')
                        || letter == 'r' && program == "ruby"
                    {
                        break;
                    }
                    if script_letters.contains(letter) {
                        has_script = true;
                        if at + 1 == letters.len() {
                            rest.next();
                        }
                        break;
                    }
                }
            }
            _ => files.push(arg),
        }
    }
    if !is_in_place {
        return None;
    }
    // On BSD the backup suffix is a separate word: `sed -i '' script file`.
    let mut skipped = usize::from(!has_script);
    skipped += usize::from(files.first().is_some_and(|first| first.text.is_empty()));
    let how: String = alloc::format!("{program} -i");
    files.iter().skip(skipped).find_map(|arg| shell.objection(PathUse::Write, &arg.spellings, &how))
}
