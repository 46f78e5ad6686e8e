//! Ranks the memory of a project for a goal: by what the goal is about, then by recency, frequency and usefulness.

use super::significant_words::significant_words;
use super::{Lesson, LessonResult, MAX_WORDS};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A word that only one lesson has says most about it; one that every lesson has says nothing. One such word outweighs
/// everything that does not depend on the goal.
const WORD_SCORE: i64 = 100;
const MAX_WORD_SCORE: i64 = 400;
/// The goal names a file that fixed it.
const FILE_SCORE: i64 = 150;
const REQUIREMENT_SCORE: i64 = 30;
const FIX_SCORE: i64 = 20;
const RUN_SCORE: i64 = 6;
const MAX_RUN_SCORE: i64 = 30;
/// A finding that does not come back was not necessarily avoided because of its lesson, so this counts little. One that
/// comes back shows that the lesson did not help.
const HELPED_SCORE: i64 = 6;
const MAX_HELPED_SCORE: i64 = 18;
const MISSED_SCORE: i64 = 12;
const MAX_MISSED_SCORE: i64 = 36;

/// A note that a person or an agent saved for later sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryNote {
    pub id: String,
    pub title: String,
    pub text: String,
    pub at_ms: u64,
}

/// What the memory is searched for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryQuery {
    /// The text of the goal, or of a prompt.
    pub goal: String,
    /// The names of the requirements in force. Empty for a session without a run.
    pub requirements: Vec<String>,
    pub now_ms: u64,
}

/// The score of a lesson without regard to a goal.
pub(super) fn base_score(lesson: &Lesson, now_ms: u64) -> i64 {
    let age_days = now_ms.saturating_sub(lesson.last_ms) / DAY_MS;
    let recency = match age_days {
        0..7 => 20,
        7..30 => 12,
        30..90 => 5,
        _ => 0,
    };
    let has_fix = lesson.runs.iter().any(|run| run.result == LessonResult::Fixed);
    let frequency = i64::from(lesson.run_count()).saturating_mul(RUN_SCORE).min(MAX_RUN_SCORE);
    let helped = (i64::from(lesson.helped()) * HELPED_SCORE).min(MAX_HELPED_SCORE);
    let missed = (i64::from(lesson.missed()) * MISSED_SCORE).min(MAX_MISSED_SCORE);
    recency + frequency + helped - missed + if has_fix { FIX_SCORE } else { 0 }
}

/// The relevant lessons, best first. In a run those of its requirements are relevant; otherwise at least one word or
/// file has to match.
pub fn rank_lessons<'a>(lessons: &'a [Lesson], query: &MemoryQuery) -> Vec<&'a Lesson> {
    let words: Vec<BTreeSet<String>> = lessons.iter().map(lesson_words).collect();
    let rarity = WordRarity::new(&words);
    let wanted = significant_words(&query.goal, MAX_WORDS * 2);
    let mut ranked: Vec<(i64, &Lesson)> = Vec::new();
    for (lesson, words) in lessons.iter().zip(&words) {
        let mut relevance = rarity.score(&wanted, words);
        if lesson.fixed_by().iter().any(|file| names_file(&query.goal, &file.path)) {
            relevance += FILE_SCORE;
        }
        if query.requirements.contains(&lesson.requirement) {
            relevance += REQUIREMENT_SCORE;
        }
        // A requirement that is no longer there cannot hold the run, whatever else matches.
        let is_possible =
            query.requirements.is_empty() || query.requirements.contains(&lesson.requirement);
        if relevance > 0 && is_possible {
            ranked.push((relevance + base_score(lesson, query.now_ms), lesson));
        }
    }
    ranked.sort_by_key(|(score, lesson)| (Reverse(*score), Reverse(lesson.last_ms), &lesson.id));
    ranked.into_iter().map(|(_, lesson)| lesson).collect()
}

/// The relevant notes, best first. In a run all are, because a person or an agent saved them for that; otherwise at
/// least one word has to match.
pub fn rank_notes<'a>(notes: &'a [MemoryNote], query: &MemoryQuery) -> Vec<&'a MemoryNote> {
    let words: Vec<BTreeSet<String>> = notes.iter().map(note_words).collect();
    let rarity = WordRarity::new(&words);
    let wanted = significant_words(&query.goal, MAX_WORDS * 2);
    let mut ranked: Vec<(i64, &MemoryNote)> = notes
        .iter()
        .zip(&words)
        .map(|(note, words)| (rarity.score(&wanted, words), note))
        .filter(|(score, _)| *score > 0 || !query.requirements.is_empty())
        .collect();
    ranked.sort_by_key(|(score, note)| (Reverse(*score), Reverse(note.at_ms), &note.id));
    ranked.into_iter().map(|(_, note)| note).collect()
}

/// The lessons and notes for a query, without those that were given already.
pub fn select_memory<'a>(
    lessons: &'a [Lesson],
    notes: &'a [MemoryNote],
    query: &MemoryQuery,
    given: &[String],
) -> (Vec<&'a Lesson>, Vec<&'a MemoryNote>) {
    let mut chosen_lessons = rank_lessons(lessons, query);
    chosen_lessons.retain(|lesson| !given.contains(&lesson.id));
    let mut chosen_notes = rank_notes(notes, query);
    chosen_notes.retain(|note| !given.contains(&note.id));
    (chosen_lessons, chosen_notes)
}

fn lesson_words(lesson: &Lesson) -> BTreeSet<String> {
    let mut words: BTreeSet<String> = lesson.words.iter().cloned().collect();
    words.extend(significant_words(&lesson.finding, MAX_WORDS));
    for file in lesson.fixed_by() {
        words.extend(significant_words(&file.path, MAX_WORDS));
    }
    words
}

fn note_words(note: &MemoryNote) -> BTreeSet<String> {
    let mut words: BTreeSet<String> =
        significant_words(&note.title, MAX_WORDS).into_iter().collect();
    words.extend(significant_words(&note.text, MAX_WORDS * 4));
    words
}

/// Whether the goal names the file by its path or its name.
fn names_file(goal: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut mentioned = goal.split(|char: char| char.is_whitespace() || "`'\"(),;:".contains(char));
    mentioned.any(|word| {
        let word = word.trim_end_matches('.');
        !word.is_empty() && (word == path || word == name && name.contains('.'))
    })
}

/// How many of the records have each word.
struct WordRarity<'a> {
    counts: BTreeMap<&'a str, i64>,
    records: i64,
}

impl<'a> WordRarity<'a> {
    fn new(records: &'a [BTreeSet<String>]) -> Self {
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for word in records.iter().flatten() {
            *counts.entry(word).or_default() += 1;
        }
        Self { counts, records: i64::try_from(records.len()).unwrap_or(i64::MAX) }
    }

    fn score(&self, wanted: &[String], words: &BTreeSet<String>) -> i64 {
        let score = wanted.iter().filter(|word| words.contains(*word)).map(|word| {
            let count = self.counts.get(word.as_str()).copied().unwrap_or(1).max(1);
            // The only record of a project cannot tell its words apart.
            let share = if self.records <= 1 { 1 } else { count };
            (WORD_SCORE / share).max(1)
        });
        score.sum::<i64>().min(MAX_WORD_SCORE)
    }
}
