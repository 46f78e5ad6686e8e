//! Programs that change files, and which of their arguments are the changed files.

use super::denial_text::deny;
use super::guarded_path::{PathPattern, PathUse, guarded_target};
use super::options::{CommandArg, ParsedOptions, parse_options};
use super::script_walk::ShellState;
use super::word_expansion::WordSpelling;
use super::{DeniedCall, GuardTarget, find_command};
use alloc::vec::Vec;

pub(super) fn judge_file_program(
    program: &str,
    args: &[CommandArg<'_>],
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    match program {
        "rm" | "unlink" | "shred" | "rmdir" | "trash" | "trash-put" => {
            let options = parse_options(args, &[], shell);
            let is_deep = options.has("rR", "recursive") || program.starts_with("trash");
            let touch = if is_deep { PathUse::Remove } else { PathUse::Write };
            judge_operands(&options.operands, touch, program, shell)
        }
        "mv" | "cp" | "scp" | "rsync" | "install" | "ln" => judge_transfer(program, args, shell),
        "truncate" => judge_written_operands(program, args, &["s", "r", "size"], shell),
        "touch" => judge_written_operands(program, args, &["d", "r", "t", "date"], shell),
        "mkdir" => judge_written_operands(program, args, &["m"], shell),
        "chmod" | "chown" | "tee" | "sponge" | "ed" => {
            judge_written_operands(program, args, &[], shell)
        }
        "patch" => judge_written_operands(
            program,
            args,
            &["p", "i", "d", "o", "input", "directory"],
            shell,
        ),
        "dd" => args.iter().find_map(|arg| {
            shell.objection(PathUse::Write, &arg.spellings_after("of=", shell), "dd of=")
        }),
        "curl" | "sort" => judge_output_options(program, args, &["o", "output"], shell),
        "wget" => judge_output_options(program, args, &["O", "P"], shell),
        "unzip" => judge_output_options(program, args, &["d"], shell),
        "tar" => judge_tar(args, shell),
        "find" => find_command::judge_find(args, shell),
        "fd" => find_command::judge_fd(args, shell),
        "sed" | "perl" | "ruby" | "yq" => judge_in_place(program, args, shell),
        _ => None,
    }
}

/// Programs that copy, move or link their sources to a target.
fn judge_transfer(
    program: &str,
    args: &[CommandArg<'_>],
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    let valued: &[&str] = match program {
        "scp" | "rsync" => &["e", "f", "exclude", "include", "filter"],
        "install" => &["t", "g", "m", "o", "target-directory"],
        _ => &["t", "S", "target-directory"],
    };
    let options = parse_options(args, valued, shell);
    let found = match program {
        "install" if options.has("d", "directory") => {
            return judge_operands(&options.operands, PathUse::Write, program, shell);
        }
        "mv" => judge_operands(source_operands(&options), PathUse::Remove, program, shell),
        "cp" | "scp" | "rsync" => judge_key_copy(&options, program, shell),
        "ln" => judge_links(&options, program, shell),
        _ => None,
    };
    found.or_else(|| judge_target(&options, program, shell))
}

fn judge_operands(
    operands: &[&CommandArg<'_>],
    touch: PathUse,
    how: &str,
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    operands.iter().find_map(|arg| shell.objection(touch, &arg.spellings, how))
}

/// Programs that write to all their operands. `valued` lists their options with a value.
fn judge_written_operands(
    program: &str,
    args: &[CommandArg<'_>],
    valued: &[&str],
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    let options = parse_options(args, valued, shell);
    judge_operands(&options.operands, PathUse::Write, program, shell)
}

/// Programs that write to the file or directory that an option names.
fn judge_output_options(
    program: &str,
    args: &[CommandArg<'_>],
    outputs: &[&str],
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    let named = parse_options(args, outputs, shell).values_of(outputs);
    shell.objection(PathUse::Write, &named, program)
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
    let options = parse_options(args, &["f", "C", "directory", "exclude"], shell);
    // The old style has no dash: `tar xzf archive`.
    let is_old_style =
        args.first().is_some_and(|first| !first.text.starts_with('-') && first.text.contains('x'));
    if !is_old_style && !options.has("x", "extract") {
        return None;
    }
    shell.objection(PathUse::Write, &options.values_of(&["C", "directory"]), "tar -x")
}

/// Stream editors with an option to change the file in place.
fn judge_in_place(
    program: &str,
    args: &[CommandArg<'_>],
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    let mut has_script = matches!(program, "perl" | "ruby");
    let mut is_in_place = false;
    let mut files: Vec<&CommandArg<'_>> = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let Some(letters) = arg.text.strip_prefix('-') else {
            files.push(arg);
            continue;
        };
        is_in_place |= letters.starts_with("-in-place");
        for (at, letter) in letters.char_indices() {
            match letter {
                'i' => is_in_place = true,
                'e' | 'f' => {
                    has_script = true;
                    if at + 1 == letters.len() {
                        rest.next();
                    }
                }
                // The rest is a library or a directory: `-Mstrict`, `-rjson`. `sed -r` has no value.
                'M' | 'I' | '-' => {}
                'r' if program == "ruby" => {}
                _ => continue,
            }
            break;
        }
    }
    if !is_in_place {
        return None;
    }
    // On BSD the backup suffix is a separate word: `sed -i '' script file`.
    let mut skipped = usize::from(!has_script);
    skipped += usize::from(files.first().is_some_and(|first| first.text.is_empty()));
    let how = alloc::format!("{program} -i");
    judge_operands(files.get(skipped..)?, PathUse::Write, &how, shell)
}
