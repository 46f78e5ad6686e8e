//! Programs that change files, and which of their arguments are the changed files.

use super::options::{Arg, Options, parse};
use super::place::{Place, Touch, guarded};
use super::walk::Shell;
use super::word::Spelling;
use super::wording::denied;
use super::{Denied, What, find};
use alloc::string::String;
use alloc::vec::Vec;

pub(super) fn judge(program: &str, args: &[Arg<'_>], shell: &Shell<'_>) -> Option<Denied> {
    match program {
        "rm" | "unlink" | "shred" | "srm" | "trash" | "trash-put" | "rmdir" => {
            let options = parse(args, &[], shell);
            let is_deep = options.has("rR", "recursive") || program.starts_with("trash");
            let touch = if is_deep { Touch::Remove } else { Touch::Write };
            each(&options, (touch, program), shell)
        }
        "mv" | "gmv" => {
            let options = parse(args, &["t", "S", "target-directory", "suffix"], shell);
            let away = sources(&options).iter();
            away.copied()
                .find_map(|arg| shell.object(Touch::Remove, &arg.spellings, program))
                .or_else(|| onto(&options, program, shell))
        }
        "cp" | "gcp" => {
            let options = parse(args, &["t", "S", "target-directory", "suffix"], shell);
            takes_key(&options, program, shell).or_else(|| onto(&options, program, shell))
        }
        "scp" | "rsync" => {
            let options = parse(args, &["e", "f", "rsh", "exclude", "include", "filter"], shell);
            takes_key(&options, program, shell).or_else(|| onto(&options, program, shell))
        }
        "install" | "ginstall" => {
            let options =
                parse(args, &["t", "S", "g", "m", "o", "target-directory", "mode"], shell);
            if options.has("d", "directory") {
                return each(&options, (Touch::Write, program), shell);
            }
            onto(&options, program, shell)
        }
        "ln" | "gln" => {
            let options = parse(args, &["t", "S", "target-directory", "suffix"], shell);
            aliases(&options, program, shell).or_else(|| onto(&options, program, shell))
        }
        "truncate" | "fallocate" => {
            all(args, (&["s", "r", "l", "o", "size", "reference"], program), shell)
        }
        "touch" => all(args, (&["d", "r", "t", "date", "reference"], program), shell),
        "chmod" | "chown" | "chgrp" | "chattr" | "setfacl" | "mkfifo" | "mknod" => {
            all(args, (&["reference"], program), shell)
        }
        "mkdir" => all(args, (&["m", "Z", "mode"], program), shell),
        "tee" | "sponge" | "ed" | "ex" => all(args, (&["c"], program), shell),
        "patch" => {
            all(args, (&["p", "i", "d", "o", "r", "B", "F", "input", "directory"], program), shell)
        }
        "dd" => args
            .iter()
            .find_map(|arg| shell.object(Touch::Write, &arg.after("of=", shell), "dd of=")),
        "curl" => into_option(args, (&["o", "output"], &CURL), shell, program),
        "wget" => into_option(
            args,
            (&["O", "P", "output-document", "directory-prefix"], &[]),
            shell,
            program,
        ),
        "sort" => into_option(args, (&["o", "output"], &["k", "t", "S", "T"]), shell, program),
        "unzip" => into_option(args, (&["d"], &[]), shell, program),
        "tar" | "bsdtar" | "gtar" => unpacks(args, shell),
        "find" | "gfind" => find::judge(args, shell),
        "fd" | "fdfind" => find::runs(args, shell),
        "sed" | "gsed" | "perl" | "ruby" | "awk" | "gawk" | "yq" => in_place(program, args, shell),
        _ => None,
    }
}

/// Options of `curl` with a value that could look like an operand.
const CURL: [&str; 12] = ["H", "d", "X", "u", "A", "b", "F", "e", "m", "w", "header", "data"];

fn each(options: &Options<'_>, (touch, how): (Touch, &str), shell: &Shell<'_>) -> Option<Denied> {
    options.operands.iter().find_map(|arg| shell.object(touch, &arg.spellings, how))
}

fn all(args: &[Arg<'_>], (valued, how): (&[&str], &str), shell: &Shell<'_>) -> Option<Denied> {
    each(&parse(args, valued, shell), (Touch::Write, how), shell)
}

fn into_option(
    args: &[Arg<'_>],
    (files, valued): (&[&str], &[&str]),
    shell: &Shell<'_>,
    how: &str,
) -> Option<Denied> {
    let valued: Vec<&str> = files.iter().chain(valued).copied().collect();
    shell.object(Touch::Write, &parse(args, &valued, shell).values_of(files), how)
}

/// All but the last operand, unless an option names the target.
fn sources<'a, 'b>(options: &'b Options<'a>) -> &'b [&'a Arg<'a>] {
    match options.operands.split_last() {
        _ if !options.values_of(&["t", "target-directory"]).is_empty() => &options.operands,
        Some((_, sources)) => sources,
        None => &[],
    }
}

/// Judges the target (the last operand, or the directory given by an option) and the resulting paths in it.
fn onto(options: &Options<'_>, how: &str, shell: &Shell<'_>) -> Option<Denied> {
    let named = options.values_of(&["t", "target-directory"]);
    let (targets, sources) = match options.operands.split_last() {
        _ if !named.is_empty() => (named, options.operands.as_slice()),
        Some((last, [])) if how == "ln" => {
            (alloc::vec![Spelling::of(".")], core::slice::from_ref(last))
        }
        Some((_, [])) | None => return None,
        Some((last, sources)) => (last.spellings.clone(), sources),
    };
    // `host:path` is on another machine.
    let is_remote = |target: &Spelling| matches!(how, "scp" | "rsync") && target.text.contains(':');
    let targets: Vec<Spelling> = targets.into_iter().filter(|target| !is_remote(target)).collect();
    let touch = if options.long.iter().any(|name| name.starts_with("delete")) {
        Touch::Remove
    } else {
        Touch::Write
    };
    if let Some(found) = shell.object(touch, &targets, how) {
        return Some(found);
    }
    for source in sources.iter().flat_map(|arg| &arg.spellings).filter(|source| !source.is_open) {
        let name = source.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if matches!(name, "" | "." | "..") {
            continue;
        }
        let inside: Vec<Spelling> = targets
            .iter()
            .filter(|target| !target.is_open)
            .map(|target| Spelling {
                text: alloc::format!("{}/{name}", target.text),
                is_open: false,
            })
            .collect();
        if let Some(found) = shell.object(Touch::Write, &inside, how) {
            return Some(found);
        }
    }
    None
}

/// Denies copies of ralph's whole home, because they include the key.
fn takes_key(options: &Options<'_>, how: &str, shell: &Shell<'_>) -> Option<Denied> {
    let is_deep = options.has("rRa", "recursive") || options.has_long("archive");
    let sources = sources(options).iter().filter(|_| is_deep);
    sources.flat_map(|arg| &arg.spellings).find_map(|spelling| {
        let mut place =
            Place::of(spelling, shell.directory.as_ref()).filter(|_| !spelling.is_open)?;
        let is_home = guarded(&place, Touch::Write, shell.ground) == Some(What::Home);
        place.push("key");
        let has_key = guarded(&place, Touch::Read, shell.ground) == Some(What::Key);
        (is_home && has_key).then(|| denied(What::Key, how, &spelling.plain()))
    })
}

/// Denies links to ralph's files, through which they could be written.
fn aliases(options: &Options<'_>, how: &str, shell: &Shell<'_>) -> Option<Denied> {
    options.operands.iter().find_map(|arg| {
        shell
            .object(Touch::Write, &arg.spellings, how)
            .filter(|found| matches!(found.what, What::Home | What::Key))
    })
}

fn unpacks(args: &[Arg<'_>], shell: &Shell<'_>) -> Option<Denied> {
    let options = parse(args, &["f", "C", "file", "directory", "exclude"], shell);
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
    shell.object(Touch::Write, &directories, "tar -x").or_else(|| {
        if directories.is_empty() {
            return members
                .into_iter()
                .find_map(|arg| shell.object(Touch::Write, &arg.spellings, "tar -x"));
        }
        None
    })
}

/// Stream editors with an option to change the file in place.
fn in_place(program: &str, args: &[Arg<'_>], shell: &Shell<'_>) -> Option<Denied> {
    let script_letters = match program {
        "sed" | "gsed" => "ef",
        "perl" | "ruby" => "eE",
        _ => "f",
    };
    let mut has_script = !matches!(program, "sed" | "gsed" | "awk" | "gawk" | "yq");
    let mut is_in_place = false;
    let mut files: Vec<&Arg<'_>> = Vec::new();
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
    files.iter().skip(skipped).find_map(|arg| shell.object(Touch::Write, &arg.spellings, &how))
}
