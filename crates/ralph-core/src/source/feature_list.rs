//! Reads `feature_list.json`: the features a loop works through, in order.

use super::SourceError;
use super::item_check::ItemCheck;
use super::lenient_json::{self, LenientJson};
use super::work_list::ListItem;
use crate::input_bounds::MAX_LIST_ITEMS;
use crate::requirement::RequirementWeight;
use crate::text;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};

const MAX_ID_LEN: usize = 40;
const MAX_DESCRIPTION_CHARS: usize = 20_000;
/// The longest word of a check.
pub const MAX_WORD_BYTES: usize = 4_000;
// A feature takes thirty times the memory of the `{},` that declares it.
const MAX_STEPS: usize = 1_000;
/// The most words of a check.
pub const MAX_CHECK_WORDS: usize = 64;
/// The longest line of a check that a shell runs.
pub const MAX_SHELL_BYTES: usize = 8_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureList {
    pub features: Vec<Feature>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Cleaned, but not always unique.
    pub id: String,
    pub description: String,
    pub steps: Vec<String>,
    pub passes: bool,
    /// If present, only its result counts.
    pub verify: Option<ItemCheck>,
}

#[derive(Deserialize)]
struct FeatureFileWire<'a> {
    #[serde(borrow, default)]
    features: LenientJson<'a, IgnoredAny, FeatureList>,
}

#[derive(Deserialize)]
struct FeatureEntryWire<'a> {
    #[serde(borrow, default)]
    id: LenientJson<'a>,
    #[serde(borrow, default)]
    description: LenientJson<'a>,
    #[serde(borrow, default)]
    steps: LenientJson<'a, IgnoredAny, FeatureSteps>,
    #[serde(borrow, default)]
    passes: LenientJson<'a>,
    #[serde(borrow, default)]
    verify: LenientJson<'a, ShellCheckWire<'a>, CommandWords>,
}

/// A line for a shell, kept byte for byte. No other key is accepted: an ignored one would look as if it had an effect.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShellCheckWire<'a> {
    #[serde(borrow)]
    shell: LenientJson<'a>,
}

/// A program and its arguments, kept byte for byte.
struct CommandWords(Vec<String>);

struct FeatureSteps(Vec<String>);

pub fn read_features(bytes: &[u8]) -> Result<FeatureList, SourceError> {
    let file = lenient_json::read_json::<FeatureFileWire<'_>, FeatureList>(bytes)?;
    let wire = match file {
        LenientJson::List(list) => return Ok(list),
        LenientJson::Object(wire) => wire,
        LenientJson::Null
        | LenientJson::Flag(_)
        | LenientJson::Number(_)
        | LenientJson::Text(_) => {
            return Err(SourceError::new(&format!(
                "the file is {}, not an object or a list",
                file.kind()
            )));
        }
    };
    match wire.features {
        LenientJson::Null => Ok(FeatureList::default()),
        LenientJson::List(list) => Ok(list),
        other @ (LenientJson::Flag(_)
        | LenientJson::Number(_)
        | LenientJson::Text(_)
        | LenientJson::Object(_)) => Err(other.type_error("features", "a list")),
    }
}

/// Whether a word can be used as an id unchanged.
pub fn is_plain_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_ID_LEN).contains(&id.len()) && id.bytes().all(plain)
}

fn parse_feature(
    position: usize,
    wire: LenientJson<'_, FeatureEntryWire<'_>>,
) -> Result<Feature, String> {
    let kind = wire.kind();
    let LenientJson::Object(wire) = wire else {
        return Err(format!("feature {position} is {kind}, not an object"));
    };
    // An id is embedded in the agent's next step, so it must not be able to form a sentence itself.
    let id =
        wire.id.as_label().filter(|id| is_plain_id(id)).unwrap_or_else(|| position.to_string());
    let passes = match wire.passes {
        LenientJson::Null => false,
        LenientJson::Flag(passes) => passes,
        other @ (LenientJson::Number(_)
        | LenientJson::Text(_)
        | LenientJson::List(_)
        | LenientJson::Object(_)) => {
            return Err(format!(
                "\"passes\" of feature {id} is {}, not true or false",
                other.kind()
            ));
        }
    };
    let verify = match wire.verify {
        LenientJson::Null => None,
        LenientJson::List(CommandWords(words))
            if words.first().is_some_and(|program| !program.is_empty()) =>
        {
            Some(ItemCheck::Argv(words))
        }
        LenientJson::List(_) => return Err(format!("\"verify\" of feature {id} names no program")),
        LenientJson::Object(ShellCheckWire { shell: LenientJson::Text(line) })
            if is_runnable_line(&line) =>
        {
            Some(ItemCheck::Shell { shell: line.into_owned() })
        }
        LenientJson::Object(_) => {
            return Err(format!("\"shell\" of feature {id} is not a line that a shell can run"));
        }
        other @ (LenientJson::Flag(_) | LenientJson::Number(_) | LenientJson::Text(_)) => {
            return Err(format!(
                "\"verify\" of feature {id} is {}, not a list of a program and its arguments or {{\"shell\": LINE}}",
                other.kind()
            ));
        }
    };
    Ok(Feature {
        verify,
        id,
        description: wire.description.as_label().unwrap_or_default(),
        steps: if let LenientJson::List(steps) = wire.steps {
            steps.0
        } else {
            wire.steps.as_label().into_iter().collect()
        },
        passes,
    })
}

fn is_runnable_line(line: &str) -> bool {
    !line.trim().is_empty() && line.len() <= MAX_SHELL_BYTES && !line.contains('\0')
}

impl<'de> Deserialize<'de> for FeatureList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FeaturesVisitor)
    }
}

struct FeaturesVisitor;

impl<'de> Visitor<'de> for FeaturesVisitor {
    type Value = FeatureList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("features")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<FeatureList, A::Error> {
        let mut features = Vec::new();
        while let Some(wire) = list.next_element()? {
            if features.len() == MAX_LIST_ITEMS {
                return Err(A::Error::custom(format!("more than {MAX_LIST_ITEMS} features")));
            }
            features.push(parse_feature(features.len() + 1, wire).map_err(A::Error::custom)?);
        }
        Ok(FeatureList { features })
    }
}

impl<'de> Deserialize<'de> for CommandWords {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(WordsVisitor)
    }
}

struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = CommandWords;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of strings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<CommandWords, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = list.next_element::<String>()? {
            if words.len() == MAX_CHECK_WORDS || word.len() > MAX_WORD_BYTES || word.contains('\0')
            {
                return Err(A::Error::custom("\"verify\" is not a runnable command"));
            }
            words.push(word);
        }
        Ok(CommandWords(words))
    }
}

impl<'de> Deserialize<'de> for FeatureSteps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(StepsVisitor)
    }
}

struct StepsVisitor;

impl<'de> Visitor<'de> for StepsVisitor {
    type Value = FeatureSteps;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("steps")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<FeatureSteps, A::Error> {
        let mut steps = Vec::new();
        while let Some(step) = list.next_element::<LenientJson<'de>>()? {
            if steps.len() < MAX_STEPS {
                steps.extend(step.as_label());
            }
        }
        Ok(FeatureSteps(steps))
    }
}

impl FeatureList {
    /// The feature to work on next: the first that does not pass.
    pub fn next_feature(&self) -> Option<&Feature> {
        self.features.iter().find(|feature| !feature.passes)
    }

    /// The features as items of a work list.
    pub fn items(&self) -> Vec<ListItem> {
        let mut names = UniqueFeatureNames::default();
        let item = |feature| Feature::to_item(feature, names.unique(&feature.id));
        self.features.iter().map(item).collect()
    }
}

impl Feature {
    fn to_item(&self, name: String) -> ListItem {
        ListItem {
            name,
            text: text::clean_line(&self.description, MAX_DESCRIPTION_CHARS),
            steps: self.steps.clone(),
            done: self.passes,
            check: self.verify.clone(),
            weight: RequirementWeight::Required,
            line: None,
            names: Vec::new(),
        }
    }
}

/// Makes names of requirements unique, because ids may repeat.
#[derive(Default)]
struct UniqueFeatureNames<'a> {
    taken: BTreeSet<String>,
    repeats: BTreeMap<&'a str, usize>,
}

impl<'a> UniqueFeatureNames<'a> {
    fn unique(&mut self, id: &'a str) -> String {
        let repeats = self.repeats.entry(id).or_default();
        loop {
            *repeats += 1;
            let name = match *repeats {
                1 => format!("feature {id}"),
                repeat => format!("feature {id} ({repeat})"),
            };
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::ClaimPolicy;
    use crate::record::ListKind;
    use crate::requirement::{Requirement, RequirementStatus};
    use crate::source::work_list::{self, ListContext, RequiredGates};
    use alloc::vec;

    fn requirements(list: &FeatureList) -> Vec<Requirement> {
        let demands = ListContext {
            file: "feature_list.json",
            kind: ListKind::Features,
            gates: RequiredGates::None,
            claims: ClaimPolicy::Claimed,
            checked: &BTreeMap::new(),
        };
        work_list::item_requirements(0, &list.items(), &demands)
    }

    fn shown(json: &str) -> Vec<String> {
        match read_features(json.as_bytes()) {
            Ok(list) => list
                .features
                .iter()
                .map(|feature| {
                    format!(
                        "{} {:?} {:?} {}",
                        feature.id, feature.description, feature.steps, feature.passes
                    )
                })
                .collect(),
            Err(garbled) => vec![garbled.why],
        }
    }

    #[test]
    fn unusual_ids_and_steps_are_accepted() {
        for (json, expected) in [
            ("{}", &[][..]),
            (r#"{"features": []}"#, &[]),
            (r#"{"features": null, "total_features": 3}"#, &[]),
            ("[]", &[]),
            (
                r#"[{"id": 1, "description": "a", "steps": ["s"], "passes": true}]"#,
                &[r#"1 "a" ["s"] true"#],
            ),
            (r#"{"features": [{"id": "x-1"}, {}]}"#, &[r#"x-1 "" [] false"#, r#"2 "" [] false"#]),
            (
                r#"[{"id": -1.5}, {"id": null}, {"id": ""}, {"id": []}]"#,
                &[
                    r#"-1.5 "" [] false"#,
                    r#"2 "" [] false"#,
                    r#"3 "" [] false"#,
                    r#"4 "" [] false"#,
                ],
            ),
            (r#"[{"id": "a\u001b[31m\n\u202eb"}]"#, &[r#"1 "" [] false"#]),
            (r#"[{"steps": [1, "b", null, {"c": 1}, 2.5]}]"#, &[r#"1 "" ["1", "b", "2.5"] false"#]),
            (r#"[{"steps": "only one"}]"#, &[r#"1 "" ["only one"] false"#]),
            (r#"[{"steps": {"a": 1}, "passes": null}]"#, &[r#"1 "" [] false"#]),
            (r#"[{"extra": {"passes": "x"}, "passes": true}]"#, &[r#"1 "" [] true"#]),
        ] {
            assert_eq!(shown(json), expected, "{json}");
        }
    }

    #[test]
    fn errors_name_the_field() {
        let many = format!("[{}{{}}]", "{},".repeat(MAX_LIST_ITEMS));
        for (json, expected) in [
            (
                r#"[{"id": 4, "passes": "true"}]"#,
                r#"line 1, column 29: "passes" of feature 4 is a string, not true or false"#,
            ),
            (
                r#"[{"passes": true}, {"passes": 1}]"#,
                r#"line 1, column 33: "passes" of feature 2 is a number, not true or false"#,
            ),
            (
                r#"{"features": [{"id": "csv", "passes": []}]}"#,
                r#"line 1, column 42: "passes" of feature csv is a list, not true or false"#,
            ),
            (r#"["a"]"#, "line 1, column 5: feature 1 is a string, not an object"),
            (r"[[]]", "line 1, column 4: feature 1 is a list, not an object"),
            (r"[{}, null]", "line 1, column 10: feature 2 is null, not an object"),
            (r#"{"features": {"1": {}}}"#, r#""features" is an object, not a list"#),
            (r#"{"features": "none"}"#, r#""features" is a string, not a list"#),
            (r#""features""#, "the file is a string, not an object or a list"),
            (
                r#"[{"passes": false, "passes": true}]"#,
                "line 1, column 27: duplicate field `passes`",
            ),
            (r#"[{"id": 1e999}]"#, "line 1, column 13: number out of range"),
            (&many, "line 1, column 60004: more than 20000 features"),
        ] {
            assert_eq!(shown(json), [expected], "{:?}", &json[..json.len().min(60)]);
        }
    }

    #[test]
    fn only_the_first_incomplete_feature_has_a_next_step() {
        let json = br#"{"features": [
            {"id": 3, "description": "Import", "steps": ["a"], "passes": true},
            {"id": 4, "description": "Export as CSV", "steps": ["Open the\nmenu", "Click \u001b[1mExport"]},
            {"id": 5, "description": "", "steps": ["never shown"], "passes": false}
        ]}"#;
        let list = read_features(json).unwrap();
        assert_eq!(list.next_feature().unwrap().id, "4");
        insta::assert_debug_snapshot!(requirements(&list), @r#"
        [
            Requirement {
                name: "feature 3",
                stage: Correctness,
                status: Met(
                    Claimed,
                ),
                weight: Required,
                next: "",
            },
            Requirement {
                name: "feature 4",
                stage: Correctness,
                status: Unmet(
                    RequirementFailure {
                        summary: "\"Export as CSV\" does not pass yet",
                        findings: [],
                        unlisted: 0,
                        quote: Some(
                            QuotedText {
                                label: "steps of feature 4",
                                text: "1. Open the menu\n2. Click Export",
                            },
                        ),
                        log: None,
                    },
                ),
                weight: Required,
                next: "Implement feature 4, check it, then set its `passes` to true in `feature_list.json`",
            },
            Requirement {
                name: "feature 5",
                stage: Correctness,
                status: Unmet(
                    RequirementFailure {
                        summary: "it does not pass yet",
                        findings: [],
                        unlisted: 0,
                        quote: None,
                        log: None,
                    },
                ),
                weight: Required,
                next: "",
            },
        ]
        "#);
    }

    #[test]
    fn repeated_ids_get_unique_names() {
        for (ids, expected) in [
            (&["4", "4", "5"][..], &["feature 4", "feature 4 (2)", "feature 5"][..]),
            (&["4", "4", "4 (2)"], &["feature 4", "feature 4 (2)", "feature 4 (2) (2)"]),
            (&["4 (2)", "4", "4"], &["feature 4 (2)", "feature 4", "feature 4 (3)"]),
        ] {
            let mut names = UniqueFeatureNames::default();
            let found: Vec<_> = ids.iter().map(|id| names.unique(id)).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn ten_thousand_features_with_the_same_id_and_long_steps_are_accepted() {
        let step = format!("{:?}", "x".repeat(300));
        let feature =
            format!(r#"{{"id": 1, "description": {step}, "steps": [{}]}}"#, [&*step; 10].join(","));
        let json = format!("[{}]", vec![feature; 10_000].join(","));
        let requirements = requirements(&read_features(json.as_bytes()).unwrap());
        let names: BTreeSet<_> = requirements.iter().map(|requirement| &requirement.name).collect();
        assert_eq!(names.len(), 10_000);
        let quoted: Vec<_> = requirements
            .iter()
            .filter_map(|requirement| match &requirement.status {
                RequirementStatus::Unmet(failure) => failure.quote.as_ref(),
                RequirementStatus::Met(_)
                | RequirementStatus::Unknown(_)
                | RequirementStatus::Pending(_) => None,
            })
            .collect();
        assert_eq!(quoted.len(), 1);
        assert_eq!(quoted[0].text.lines().count(), 10);
    }
}
