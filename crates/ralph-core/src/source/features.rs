//! Reads `feature_list.json`: the features a loop works through, in order.

use super::Garbled;
use super::json::{self, Json};
use super::list::Item;
use crate::requirement::Weight;
use crate::text;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};

const LONGEST_ID: usize = 40;
const LONGEST_DESCRIPTION: usize = 20_000;
const LONGEST_STEP: usize = 4_000;
// A feature takes thirty times the memory of the `{},` that declares it.
const MOST_FEATURES: usize = 20_000;
const MOST_STEPS: usize = 1_000;
const MOST_WORDS: usize = 64;

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
    /// A program and its arguments. If present, only its result counts.
    pub verify: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    features: Json<'a, IgnoredAny, FeatureList>,
}

#[derive(Deserialize)]
struct WireFeature<'a> {
    #[serde(borrow, default)]
    id: Json<'a>,
    #[serde(borrow, default)]
    description: Json<'a>,
    #[serde(borrow, default)]
    steps: Json<'a, IgnoredAny, Steps>,
    #[serde(borrow, default)]
    passes: Json<'a>,
    #[serde(borrow, default)]
    verify: Json<'a, IgnoredAny, Words>,
}

/// A program and its arguments, kept byte for byte.
struct Words(Vec<String>);

struct Steps(Vec<String>);

pub fn read(bytes: &[u8]) -> Result<FeatureList, Garbled> {
    let file = json::read::<Wire<'_>, FeatureList>(bytes)?;
    let wire = match file {
        Json::List(list) => return Ok(list),
        Json::Object(wire) => wire,
        Json::Null | Json::Flag(_) | Json::Number(_) | Json::Text(_) => {
            return Err(Garbled::new(&format!(
                "the file is {}, not an object or a list",
                file.kind()
            )));
        }
    };
    match wire.features {
        Json::Null => Ok(FeatureList::default()),
        Json::List(list) => Ok(list),
        other @ (Json::Flag(_) | Json::Number(_) | Json::Text(_) | Json::Object(_)) => {
            Err(other.is_not("features", "a list"))
        }
    }
}

/// Whether a word can be used as an id unchanged.
pub fn is_plain(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(plain)
}

fn feature(position: usize, wire: Json<'_, WireFeature<'_>>) -> Result<Feature, String> {
    let kind = wire.kind();
    let Json::Object(wire) = wire else {
        return Err(format!("feature {position} is {kind}, not an object"));
    };
    // An id is embedded in the agent's next step, so it must not be able to form a sentence itself.
    let id = wire.id.word().filter(|id| is_plain(id)).unwrap_or_else(|| position.to_string());
    let passes = match wire.passes {
        Json::Null => false,
        Json::Flag(passes) => passes,
        other @ (Json::Number(_) | Json::Text(_) | Json::List(_) | Json::Object(_)) => {
            return Err(format!(
                "\"passes\" of feature {id} is {}, not true or false",
                other.kind()
            ));
        }
    };
    let verify = match wire.verify {
        Json::Null => None,
        Json::List(Words(words)) if words.first().is_some_and(|program| !program.is_empty()) => {
            Some(words)
        }
        Json::List(_) => return Err(format!("\"verify\" of feature {id} names no program")),
        other @ (Json::Flag(_) | Json::Number(_) | Json::Text(_) | Json::Object(_)) => {
            return Err(format!(
                "\"verify\" of feature {id} is {}, not a list of a program and its arguments",
                other.kind()
            ));
        }
    };
    Ok(Feature {
        verify,
        id,
        description: wire.description.word().unwrap_or_default(),
        steps: if let Json::List(steps) = wire.steps {
            steps.0
        } else {
            wire.steps.word().into_iter().collect()
        },
        passes,
    })
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
            if features.len() == MOST_FEATURES {
                return Err(A::Error::custom(format!("more than {MOST_FEATURES} features")));
            }
            features.push(feature(features.len() + 1, wire).map_err(A::Error::custom)?);
        }
        Ok(FeatureList { features })
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(WordsVisitor)
    }
}

struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = Words;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of strings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Words, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = list.next_element::<String>()? {
            if words.len() == MOST_WORDS || word.len() > LONGEST_STEP || word.contains('\0') {
                return Err(A::Error::custom("\"verify\" is not a runnable command"));
            }
            words.push(word);
        }
        Ok(Words(words))
    }
}

impl<'de> Deserialize<'de> for Steps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(StepsVisitor)
    }
}

struct StepsVisitor;

impl<'de> Visitor<'de> for StepsVisitor {
    type Value = Steps;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("steps")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Steps, A::Error> {
        let mut steps = Vec::new();
        while let Some(step) = list.next_element::<Json<'de>>()? {
            if steps.len() < MOST_STEPS {
                steps.extend(step.word());
            }
        }
        Ok(Steps(steps))
    }
}

impl FeatureList {
    /// The feature to work on next: the first that does not pass.
    pub fn next(&self) -> Option<&Feature> {
        self.features.iter().find(|feature| !feature.passes)
    }

    /// The features as items of a work list.
    pub fn items(&self) -> Vec<Item> {
        let mut names = Names::default();
        let item = |feature| Feature::item(feature, names.unique(&feature.id));
        self.features.iter().map(item).collect()
    }
}

impl Feature {
    fn item(&self, name: String) -> Item {
        Item {
            name,
            text: text::line(&self.description, LONGEST_DESCRIPTION),
            steps: self.steps.clone(),
            done: self.passes,
            check: self.verify.clone(),
            weight: Weight::Required,
            line: None,
            names: Vec::new(),
        }
    }
}

/// Makes names of requirements unique, because ids may repeat.
#[derive(Default)]
struct Names<'a> {
    taken: BTreeSet<String>,
    repeats: BTreeMap<&'a str, usize>,
}

impl<'a> Names<'a> {
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
    use crate::policy::Claims;
    use crate::record::ListKind;
    use crate::requirement::{Requirement, Standing};
    use crate::source::list::{self, Demands, Gates};
    use alloc::vec;

    fn requirements(list: &FeatureList) -> Vec<Requirement> {
        let demands = Demands {
            file: "feature_list.json",
            kind: ListKind::Features,
            gates: Gates::None,
            claims: Claims::Claimed,
            checked: &BTreeMap::new(),
        };
        list::requirements(0, &list.items(), &demands)
    }

    fn shown(json: &str) -> Vec<String> {
        match read(json.as_bytes()) {
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
        let many = format!("[{}{{}}]", "{},".repeat(MOST_FEATURES));
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
        let list = read(json).unwrap();
        assert_eq!(list.next().unwrap().id, "4");
        insta::assert_debug_snapshot!(requirements(&list), @r#"
        [
            Requirement {
                name: "feature 3",
                stage: Correctness,
                standing: Met(
                    Claimed,
                ),
                weight: Required,
                next: "",
            },
            Requirement {
                name: "feature 4",
                stage: Correctness,
                standing: Unmet(
                    Failure {
                        summary: "\"Export as CSV\" does not pass yet",
                        findings: [],
                        unlisted: 0,
                        quote: Some(
                            Quote {
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
                standing: Unmet(
                    Failure {
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
            let mut names = Names::default();
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
        let requirements = requirements(&read(json.as_bytes()).unwrap());
        let names: BTreeSet<_> = requirements.iter().map(|requirement| &requirement.name).collect();
        assert_eq!(names.len(), 10_000);
        let quoted: Vec<_> = requirements
            .iter()
            .filter_map(|requirement| match &requirement.standing {
                Standing::Unmet(failure) => failure.quote.as_ref(),
                Standing::Met(_) | Standing::Unknown(_) | Standing::Pending(_) => None,
            })
            .collect();
        assert_eq!(quoted.len(), 1);
        assert_eq!(quoted[0].text.lines().count(), 10);
    }
}
