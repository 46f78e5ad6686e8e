use super::*;
use crate::loop_directory;
use insta::assert_snapshot;
use proptest::prelude::*;
use std::time::Duration;

fn example_draft(id: Option<&str>) -> FeatureDraft {
    FeatureDraft {
        id: id.map(str::to_string),
        description: "Export as \"CSV\"".to_string(),
        steps: vec!["Open".to_string()],
        passes: false,
        verify: None,
    }
}

struct LoopSandbox {
    root: tempfile::TempDir,
}

impl LoopSandbox {
    fn new(list: &[u8]) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("csv")).unwrap();
        write_file(&root.path().join("csv").join(loop_directory::FEATURES_FILE), list);
        Self { root }
    }

    fn home(&self) -> RalphHome {
        RalphHome::new(self.root.path().join("home"))
    }

    fn loop_under_test(&self) -> FeatureLoop {
        FeatureLoop::from_directory(&fs::resolve(&self.root.path().join("csv")).unwrap())
    }

    fn list(&self) -> Vec<u8> {
        read_file(&self.loop_under_test().list().path)
    }

    fn claim(&self, name: &str, claim: ClaimAction) -> Result<ClaimResult, FeatureError> {
        super::set_claim(&self.home(), &self.loop_under_test(), name, claim, &deadline())
    }

    fn add(&self, draft: &FeatureDraft) -> Result<String, FeatureError> {
        super::add_feature(&self.home(), &self.loop_under_test(), draft, &deadline())
    }
}

fn write_file(path: &Path, bytes: &[u8]) {
    fs::replace_with_mode(path, bytes, fs::SharedFileMode::Ordinary).unwrap();
}

fn read_file(path: &Path) -> Vec<u8> {
    fs::read(path, MAX_LIST_BYTES).unwrap()
}

fn deadline() -> Deadline {
    Deadline::after(Duration::from_secs(10))
}

/// A claim sets one value and keeps every other byte, even if the value was missing before.
#[test]
fn a_claim_changes_one_value() {
    for (before, after) in [
        (r#"[{"id": 1, "passes": false}]"#, r#"[{"id": 1, "passes": true}]"#),
        (r#"[{"id":1,"passes":null , "x":[ ]}]"#, r#"[{"id":1,"passes":true , "x":[ ]}]"#),
        (r#"[{"id": 1}]"#, r#"[{"id": 1, "passes": true}]"#),
        (r#"[{"a": 0 , "id": 1 }]"#, r#"[{"a": 0 , "id": 1, "passes": true }]"#),
        (r#"[{"a":0,"id":1}]"#, r#"[{"a":0,"id":1,"passes":true}]"#),
        (r"[{}]", r#"[{"passes": true}]"#),
        (
            "\u{feff}{\r\n\t\"features\": [\r\n\t\t{\r\n\t\t\t\"id\": 1,\r\n\t\t\t\"é\": 1\r\n\t\t}\r\n\t]\r\n}\r\n",
            "\u{feff}{\r\n\t\"features\": [\r\n\t\t{\r\n\t\t\t\"id\": 1,\r\n\t\t\t\"é\": 1,\r\n\t\t\t\"passes\": true\r\n\t\t}\r\n\t]\r\n}\r\n",
        ),
        (
            r#"{"x": {"passes": false}, "features": [{"pa\u0073ses": false, "id": 1}]}"#,
            r#"{"x": {"passes": false}, "features": [{"pa\u0073ses": true, "id": 1}]}"#,
        ),
    ] {
        let place = LoopSandbox::new(before.as_bytes());
        assert_eq!(place.claim("1", ClaimAction::Made).unwrap(), ClaimResult::Changed, "{before}");
        assert_eq!(String::from_utf8(place.list()).unwrap(), after);
        assert_eq!(place.claim("feature 1", ClaimAction::Made).unwrap(), ClaimResult::Unchanged);
        assert_eq!(place.claim("1", ClaimAction::Withdrawn).unwrap(), ClaimResult::Changed);
        assert_eq!(
            String::from_utf8(place.list()).unwrap(),
            after.replace(": true", ": false").replace(":true", ":false")
        );
    }
}

#[test]
fn features_with_the_same_id_are_named_by_number() {
    let place = LoopSandbox::new(br#"[{"id": 4}, {"id": 4}]"#);
    assert_eq!(place.claim("4 (2)", ClaimAction::Made).unwrap(), ClaimResult::Changed);
    assert_eq!(place.list(), br#"[{"id": 4}, {"id": 4, "passes": true}]"#);
}

#[test]
fn unusable_lists_are_not_changed() {
    let deep = format!("[{{\"id\": 1, \"x\": {}{}}}]", "[".repeat(5000), "]".repeat(5000));
    for (list, expected) in [
        (&b"[{\"id\": 1,"[..], "cannot read `$PATH`: line 1, column 10: EOF while parsing a value"),
        (b"", "cannot read `$PATH`: it is empty"),
        (b"[{\"id\": 2}]", "there is no feature `1` in `$PATH`"),
        (b"[{\"id\": 1, \"x\": \"\xff\"}]", "cannot change `$PATH`: line 1 is not UTF-8"),
        (
            deep.as_bytes(),
            "cannot change `$PATH`: Maximum nesting depth exceeded on line 1 column 526",
        ),
    ] {
        let place = LoopSandbox::new(list);
        let error = place.claim("1", ClaimAction::Made).unwrap_err().to_string();
        let path = place.loop_under_test().list().path.display().to_string();
        assert_eq!(error.replace(&path, "$PATH"), expected);
        assert_eq!(place.list(), list);
    }
}

#[test]
fn a_link_is_not_followed_out_of_the_loop() {
    let place = LoopSandbox::new(b"[]");
    let elsewhere = place.root.path().join("elsewhere.json");
    write_file(&elsewhere, b"[{\"id\": 1}]");
    std::fs::remove_file(place.loop_under_test().list().path).unwrap();
    std::os::unix::fs::symlink(&elsewhere, place.loop_under_test().list().path).unwrap();
    let error = place.claim("1", ClaimAction::Made).unwrap_err();
    assert!(matches!(error, FeatureError::File(_)), "{error}");
    assert_eq!(read_file(&elsewhere), b"[{\"id\": 1}]");
}

/// Each list after a feature was added.
fn lists_with_added_feature(lists: &[&str]) -> String {
    let mut shown = String::new();
    for list in lists {
        let place = LoopSandbox::new(list.as_bytes());
        let id = place.add(&example_draft(None)).unwrap();
        let after = String::from_utf8(place.list()).unwrap().replace('\r', "␍");
        shown.push_str(&format!("--- {id}\n{}\n", after.trim_end()));
    }
    shown
}

/// A new feature is formatted like the existing ones.
#[test]
fn a_feature_is_added_on_one_line_if_the_others_are() {
    let shown = lists_with_added_feature(&[
        "[]",
        "{}",
        "{\"features\": null}",
        "[{\"id\":1,\"description\":\"a\"}]",
        "[{\"id\": 1, \"description\": \"a\"}]",
        "[\n  {\"id\": \"a\"},\n  {\"id\": \"b\"}\n]\n",
    ]);
    assert_snapshot!(shown, @r#"
    --- 1
    [{"id": 1, "description": "Export as \"CSV\"", "steps": ["Open"], "passes": false}]
    --- 1
    {"features": [{"id": 1, "description": "Export as \"CSV\"", "steps": ["Open"], "passes": false}]}
    --- 1
    {"features": [{"id": 1, "description": "Export as \"CSV\"", "steps": ["Open"], "passes": false}]}
    --- 2
    [{"id":1,"description":"a"},{"id":2,"description":"Export as \"CSV\"","steps":["Open"],"passes":false}]
    --- 2
    [{"id": 1, "description": "a"}, {"id": 2, "description": "Export as \"CSV\"", "steps": ["Open"], "passes": false}]
    --- 3
    [
      {"id": "a"},
      {"id": "b"},
      {"id": "3", "description": "Export as \"CSV\"", "steps": ["Open"], "passes": false}
    ]
    "#);
}

#[test]
fn a_feature_is_added_with_the_indentation_of_the_others() {
    let shown = lists_with_added_feature(&[
        "{\r\n\t\"features\": [\r\n\t\t{\r\n\t\t\t\"id\": 7\r\n\t\t}\r\n\t],\r\n\t\"total_features\": 1\r\n}",
        "{\n    \"features\": [{\n        \"id\": 3\n    }, {\n        \"id\": 9\n    }]\n}\n",
        "{\n  \"total_features\": 40,\n  \"features\": [\n    {\n      \"id\": 3\n    }\n  ]\n}\n",
    ]);
    assert_snapshot!(shown, @r#"
    --- 8
    {␍
    	"features": [␍
    		{␍
    			"id": 7␍
    		},␍
    		{␍
    			"id": 8,␍
    			"description": "Export as \"CSV\"",␍
    			"steps": [␍
    				"Open"␍
    			],␍
    			"passes": false␍
    		}␍
    	],␍
    	"total_features": 2␍
    }
    --- 10
    {
        "features": [{
            "id": 3
        }, {
            "id": 9
        }, {
            "id": 10,
            "description": "Export as \"CSV\"",
            "steps": [
                "Open"
            ],
            "passes": false
        }]
    }
    --- 4
    {
      "total_features": 40,
      "features": [
        {
          "id": 3
        },
        {
          "id": 4,
          "description": "Export as \"CSV\"",
          "steps": [
            "Open"
          ],
          "passes": false
        }
      ]
    }
    "#);
}

#[test]
fn the_first_feature_of_an_empty_list_is_indented() {
    let shown = lists_with_added_feature(&[
        "{\n  \"total_features\": 0,\n  \"features\": []\n}\n",
        "[\n]\n",
    ]);
    assert_snapshot!(shown, @r#"
    --- 1
    {
      "total_features": 1,
      "features": [
        {
          "id": 1,
          "description": "Export as \"CSV\"",
          "steps": [
            "Open"
          ],
          "passes": false
        }
      ]
    }
    --- 1
    [
      {
        "id": 1,
        "description": "Export as \"CSV\"",
        "steps": [
          "Open"
        ],
        "passes": false
      }
    ]
    "#);
}

#[test]
fn ids_are_unique_and_plain() {
    let place = LoopSandbox::new(br#"[{"id": 4}, {"id": "csv-1"}]"#);
    for (id, expected) in [
        ("4", "feature `4` already exists"),
        ("csv-1", "feature `csv-1` already exists"),
        ("a b", "`a b` is not a valid feature id"),
        ("", "`` is not a valid feature id"),
    ] {
        assert_eq!(place.add(&example_draft(Some(id))).unwrap_err().to_string(), expected);
    }
    assert_eq!(place.add(&example_draft(Some("csv-2"))).unwrap(), "csv-2");
    assert_eq!(place.add(&example_draft(None)).unwrap(), "5");
}

#[test]
fn items_of_a_text_become_features() {
    let text = "\u{feff}# Loop\r\n\r\nIntro - not an item\n\n- [ ] Import a CSV file,\n  also a large one\n  - Open it\n    slowly\n  1. See rows\n* [x] Export\n+ Quote \u{1b}[1mfields\n\n```\n- not this\n```\n\n1. First\n2) Second\n-no item\n- \n   text that belongs to nothing\n- [link](x) last\n";
    assert_snapshot!(format!("{:#?}", parse_features(text.as_bytes())), @r#"
    [
        FeatureDraft {
            id: None,
            description: "Import a CSV file, also a large one",
            steps: [
                "Open it slowly",
                "See rows",
            ],
            passes: false,
            verify: None,
        },
        FeatureDraft {
            id: None,
            description: "Export",
            steps: [],
            passes: true,
            verify: None,
        },
        FeatureDraft {
            id: None,
            description: "Quote fields",
            steps: [],
            passes: false,
            verify: None,
        },
        FeatureDraft {
            id: None,
            description: "First",
            steps: [],
            passes: false,
            verify: None,
        },
        FeatureDraft {
            id: None,
            description: "Second",
            steps: [],
            passes: false,
            verify: None,
        },
        FeatureDraft {
            id: None,
            description: "text that belongs to nothing",
            steps: [],
            passes: false,
            verify: None,
        },
        FeatureDraft {
            id: None,
            description: "[link](x) last",
            steps: [],
            passes: false,
            verify: None,
        },
    ]
    "#);
    for nothing in [&b""[..], b"just text\n", b"\xff\xfe", b"```\n- open fence"] {
        assert_eq!(parse_features(nothing), []);
    }
}

#[test]
fn a_loop_is_created_once_and_only_in_the_project() {
    let root = tempfile::tempdir().unwrap();
    let project = fs::resolve(root.path()).unwrap();
    let new =
        NewLoop { name: "csv", source: &InitialList::Example, goal: None, max_iterations: 15 };
    let made = create_loop(&project, &new).unwrap();
    assert_eq!(find_loops(&project).unwrap(), std::slice::from_ref(&made));
    let before = read_file(&made.list().path);
    assert!(matches!(create_loop(&project, &new), Err(FeatureError::AlreadyExists(_))));
    assert_eq!(read_file(&made.list().path), before);
    for name in ["", ".", "..", "a/b", "-x", ".x", "a b", "ä", &"x".repeat(65)] {
        let wrong = create_loop(&project, &NewLoop { name, ..new.clone() });
        assert!(matches!(wrong, Err(FeatureError::InvalidLoopName(_))), "{name}");
    }
    let other = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), other.path().join(".claude")).unwrap();
    let project = fs::resolve(other.path()).unwrap();
    assert!(matches!(create_loop(&project, &new), Err(FeatureError::OutsideProject(_))));
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

proptest! {
    /// For any list, making or withdrawing a claim changes nothing but that one claim.
    #[test]
    fn claims_keep_everything_else(
        ids in proptest::collection::vec((0_u8..5, proptest::option::of(any::<bool>())), 1..8),
        pretty in any::<bool>(),
        at in 0_usize..8,
    ) {
        let features: Vec<_> = ids
            .iter()
            .map(|(id, passes)| match passes {
                Some(passes) => serde_json::json!({"id": id, "passes": passes, "steps": ["a"]}),
                None => serde_json::json!({"id": id}),
            })
            .collect();
        let bytes = if pretty {
            serde_json::to_vec_pretty(&features).unwrap()
        } else {
            serde_json::to_vec(&features).unwrap()
        };
        let list = feature_list::read_features(&bytes).unwrap();
        let at = at % list.features.len();
        for wanted in [true, false] {
            let after = list_edit::with_passes(&bytes, at, wanted).unwrap();
            let mut expected = list.clone();
            expected.features[at].passes = wanted;
            prop_assert_eq!(feature_list::read_features(&after).unwrap(), expected);
        }
    }

    /// No input makes parsing or editing panic.
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0_usize..3) {
        drop(parse_features(&bytes));
        drop(list_edit::with_passes(&bytes, at, true));
        if let Ok(list) = feature_list::read_features(&bytes) {
            drop(list_edit::with_feature(&bytes, &list, &example_draft(Some("x"))));
        }
    }
}
