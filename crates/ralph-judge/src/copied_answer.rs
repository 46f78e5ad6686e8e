//! Distinguishes the answer of a judge from a copy of text that it was given. A judge that refuses often quotes the change,
//! and one that the change persuaded repeats it.

use crate::JudgeRequest;
use crate::answer_parser::ParsedReply;
use crate::contract_text::contract_text;
use crate::copy_search::CopySearch;
use crate::diff_sections::split_diff;
use ralph_core::judge::{JudgeCase, JudgeVerdict};
use ralph_core::redact::Redactor;
use ralph_core::text;
use ralph_core::units;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileKind, RegularFile};
use ralph_sys::proc::cancel::CancelToken;
use std::path::{Component, Path, PathBuf};

/// How many bytes of all changed files are searched.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;
const CHUNK_BYTES: usize = 256 * 1024;
/// The longest character has one more.
const MAX_TAIL_BYTES: usize = 3;
const MAX_PATH_CHARS: usize = 100;
const COPY_TEXT: &str = "its answer is a copy of text that it was given";

/// What an answer is compared with.
pub(crate) struct AnswerSources<'a> {
    pub(crate) request: &'a JudgeRequest<'a>,
    /// The facts of the prompt, with results of gates and claims of others that are not in the case.
    pub(crate) facts: &'a str,
    pub(crate) redactor: &'a Redactor,
    pub(crate) deadline: Deadline,
    pub(crate) cancel: &'a CancelToken,
}

impl AnswerSources<'_> {
    /// Fails if the answer stands in something that the judge was given, or if that is not known. An `unmet` holds the
    /// agent, so it has no reason to write one there.
    pub(crate) fn check_origin(&self, reply: &ParsedReply) -> Result<(), String> {
        let ParsedReply::Answer { answer, object, .. } = reply else { return Ok(()) };
        match answer.verdict {
            JudgeVerdict::Unmet | JudgeVerdict::Unsure => return Ok(()),
            JudgeVerdict::Met | JudgeVerdict::Impossible => {}
        }
        let mut search = CopySearch::new(&self.redactor.redact(object));
        if is_given(&mut search, self.request.case, self.facts) {
            return Err(COPY_TEXT.to_string());
        }
        match self.is_in_files(&mut search) {
            Ok(true) => Err(COPY_TEXT.to_string()),
            Ok(false) => Ok(()),
            // It was given no file, so it can repeat only what is in its facts.
            Err(_) if !self.request.judge.reads_files() => Ok(()),
            Err(why) => {
                Err(format!("its answer could not be compared with every changed file: {why}"))
            }
        }
    }

    /// The diff leaves out large files, and a judge that reads files sees lines beside the changed ones. The error is why
    /// not all of them were searched.
    fn is_in_files(&self, search: &mut CopySearch) -> Result<bool, String> {
        let listed = self.request.support.changed_files(self.deadline)?;
        let files = listed.unwrap_or_else(|| named_files(self.request));
        if files.iter().any(|path| search.is_in(&path.to_string_lossy())) {
            return Ok(true);
        }
        let mut left = MAX_BYTES;
        for path in &files {
            if self.is_in_file(path, search, &mut left)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Follows no symbolic link: the target of one is content of the change, and the file behind it is not.
    fn is_in_file(
        &self,
        path: &Path,
        search: &mut CopySearch,
        left: &mut u64,
    ) -> Result<bool, String> {
        let unread = || {
            let name = text::clean_line(&path.to_string_lossy(), MAX_PATH_CHARS);
            format!("`{name}` cannot be read")
        };
        let mut whole = self.request.files.to_path_buf();
        let mut kind = FileKind::Directory;
        for part in path.components() {
            let (Component::Normal(name), FileKind::Directory) = (part, kind) else {
                return Err(unread());
            };
            whole.push(name);
            kind = fs::stat_no_follow(&whole).ok_or_else(unread)?.kind;
        }
        if kind == FileKind::Symlink {
            let target = fs::read_link(&whole).map_err(|_| unread())?;
            return Ok(search.is_in(&target.to_string_lossy()));
        }
        let file = RegularFile::open(&whole).map_err(|_| unread())?;
        let too_much = || format!("they have more than {}", units::format_bytes(MAX_BYTES));
        if file.opened_len() > *left {
            return Err(too_much());
        }
        search.begin();
        let (mut at, mut bytes) = (0_u64, Vec::new());
        loop {
            if self.cancel.is_cancelled() {
                return Err("cancelled".to_string());
            }
            if self.deadline.has_passed() {
                return Err("the time is up".to_string());
            }
            let read = file.append_range(at, CHUNK_BYTES, &mut bytes).map_err(|_| unread())?;
            let read = u64::try_from(read).unwrap_or(u64::MAX);
            at = at.saturating_add(read);
            *left = left.checked_sub(read).ok_or_else(too_much)?;
            let tail = if read == 0 { 0 } else { unfinished_tail(&bytes) };
            let whole_chars = bytes.len() - tail;
            for chunk in bytes.get(..whole_chars).unwrap_or_default().utf8_chunks() {
                search.read(chunk.valid());
            }
            bytes.drain(..whole_chars);
            if search.is_found() || read == 0 {
                return Ok(search.is_found());
            }
        }
    }
}

/// Whether the answer stands in the text that the judge was given.
fn is_given(search: &mut CopySearch, case: &JudgeCase, facts: &str) -> bool {
    let contract = contract_text(&case.contract);
    let texts = [facts, &case.goal, &contract, &case.diff, &case.test_diff];
    let evidence = case.evidence.iter().flat_map(|one| [&one.requirement, &one.result]);
    let names = case.omitted.iter().chain(case.redacted.iter().map(|one| &one.file));
    let others = case.plan.iter().chain(evidence).chain(names).map(String::as_str);
    texts.into_iter().chain(others).any(|text| search.is_in(text))
}

/// The changed files that the case names, without those that are deleted.
fn named_files(request: &JudgeRequest<'_>) -> Vec<PathBuf> {
    let case = request.case;
    let shown = [&case.diff, &case.test_diff].into_iter().flat_map(|diff| split_diff(diff));
    let shown = shown.map(|section| section.path);
    let shown = shown.filter(|path| fs::stat_no_follow(&request.files.join(path)).is_some());
    shown.chain(case.omitted.iter().cloned()).map(PathBuf::from).collect()
}

/// How many bytes at the end are the beginning of a character.
fn unfinished_tail(bytes: &[u8]) -> usize {
    let last = bytes.iter().rev().take(MAX_TAIL_BYTES).zip(1..);
    for (byte, length) in last {
        let expected = match byte {
            0x80..=0xbf => continue,
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xff => 4,
            0..=0x7f => return 0,
        };
        return if length < expected { length } else { 0 };
    }
    0
}
