//! Reads objects with `git cat-file --batch`, and compares each with its id.
//!
//! Git verifies objects when it fetches them, but only some of them when it reads. An agent can write other content under
//! the id of an object, so without this it could choose what ralph takes for the start of a run or for the work.

use crate::hardened_git::GitCommandError;
use crate::tree::{ObjectFormat, ObjectId, hash_object};

/// Commits have a few lines, and signatures.
pub(crate) const MAX_COMMIT_BYTES: usize = 64 * 1024 * 1024;
/// Upper bound for the line that git prints before each object.
pub(crate) const MAX_OBJECT_HEADER_BYTES: usize = 128;

pub(crate) const BATCH_COMMAND: [&str; 3] = ["cat-file", "--buffer", "--batch"];

/// An object whose content has its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredObject<'a> {
    pub id: ObjectId,
    /// `blob`, `tree`, `commit` or `tag`.
    pub kind: &'a str,
    pub content: &'a [u8],
}

/// The input that asks for these objects.
pub(crate) fn batch_input<'a>(
    format: ObjectFormat,
    ids: impl IntoIterator<Item = &'a ObjectId>,
) -> Vec<u8> {
    let mut input = Vec::new();
    for id in ids {
        input.extend(format.hex(id).bytes().chain(*b"\n"));
    }
    input
}

/// Parses `<id> <kind> <size>` with the content, or `<id> missing`. Missing objects are left out.
pub(crate) fn parse_batch(
    format: ObjectFormat,
    mut output: &[u8],
) -> Result<Vec<StoredObject<'_>>, GitCommandError> {
    let mut objects = Vec::new();
    while !output.is_empty() {
        let (object, rest) = split_object(format, output)
            .ok_or_else(|| GitCommandError::unexpected_output("cat-file"))?;
        if let Some(object) = object {
            if hash_object(format, object.kind, object.content) != object.id {
                return Err(GitCommandError::WrongContent { id: format.hex(&object.id) });
            }
            objects.push(object);
        }
        output = rest;
    }
    Ok(objects)
}

/// Fails if the output does not have as many trees as were asked for.
pub(crate) fn check_trees(
    format: ObjectFormat,
    output: &[u8],
    asked: usize,
) -> Result<(), GitCommandError> {
    let objects = parse_batch(format, output)?;
    let trees = objects.iter().filter(|object| object.kind == "tree");
    if trees.count() == asked {
        Ok(())
    } else {
        Err(GitCommandError::unexpected_output("cat-file"))
    }
}

/// The first object, unless it is missing, and the output after it.
fn split_object(format: ObjectFormat, output: &[u8]) -> Option<(Option<StoredObject<'_>>, &[u8])> {
    let end = memchr::memchr(b'\n', output)?;
    let (header, rest) = (output.get(..end)?, output.get(end + 1..)?);
    let mut fields = std::str::from_utf8(header).ok()?.split(' ');
    let id = format.parse(fields.next()?.as_bytes())?;
    let kind = fields.next()?;
    if kind == "missing" {
        return Some((None, rest));
    }
    let size: usize = fields.next()?.parse().ok()?;
    let content = rest.get(..size)?;
    Some((Some(StoredObject { id, kind, content }), rest.get(size + 1..)?))
}

/// The tree that the content of a commit names.
pub(crate) fn tree_of_commit(format: ObjectFormat, content: &[u8]) -> Option<ObjectId> {
    let line = content.split(|byte| *byte == b'\n').next()?;
    format.parse(line.strip_prefix(b"tree ")?)
}

/// The id in a record of `git ls-tree -t -z` about a directory. `None` for files.
pub(crate) fn directory_id(format: ObjectFormat, record: &[u8]) -> Option<ObjectId> {
    let rest = record.strip_prefix(b"040000 tree ")?;
    format.parse(rest.split(|byte| *byte == b'\t').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_compared_with_their_ids() {
        let format = ObjectFormat::Sha1;
        let (hello, absent) = (
            "ce013625030ba8dba906f756967f9e9ca394464a",
            "0123456789012345678901234567890123456789",
        );
        let batch = |kind: &str, text: &str| {
            format!("{hello} {kind} {}\n{text}\n{absent} missing\n", text.len())
        };
        let read = |output: &str| match parse_batch(format, output.as_bytes()) {
            Ok(objects) => {
                let shown = objects.iter().map(|object| {
                    (object.kind, String::from_utf8_lossy(object.content).into_owned())
                });
                format!("{:?}", shown.collect::<Vec<_>>())
            }
            Err(error) => error.to_string(),
        };
        let wrong = format!("the content of git object `{hello}` does not match its id");
        assert_eq!(read(&batch("blob", "hello\n")), r#"[("blob", "hello\n")]"#);
        assert_eq!(read(&batch("blob", "other\n")), wrong);
        assert_eq!(read(&batch("tree", "hello\n")), wrong);
        let unexpected = "`git cat-file` printed unexpected output";
        for cut in ["x", &format!("{hello} blob 9\nhello\n"), &format!("{hello} blob\n")] {
            assert_eq!(read(cut), unexpected, "{cut}");
        }
        let id = format.parse(hello.as_bytes()).unwrap();
        assert_eq!(batch_input(format, [&id, &id]), format!("{hello}\n{hello}\n").into_bytes());
    }
}
