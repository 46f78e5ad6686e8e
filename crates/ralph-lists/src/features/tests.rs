use super::*;
use crate::loop_directory;
use insta::assert_snapshot;
use proptest::prelude::*;
use std::time::Duration;

fn feature(id: Option<&str>) -> Draft {
    Draft {
        id: id.map(str::to_string),
        description: "Export as \"CSV\"".to_string(),
        steps: vec!["Open".to_string()],
        passes: false,
        verify: None,
    }
}

struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new(list: &[u8]) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("csv")).unwrap();
        put(&root.path().join("csv").join(loop_directory::FEATURES), list);
        Self { root }
    }

    fn home(&self) -> Home {
        Home::new(self.root.path().join("home"))
    }

    fn of(&self) -> Loop {
        Loop::at(&fs::resolve(&self.root.path().join("csv")).unwrap())
    }

    fn list(&self) -> Vec<u8> {
        bytes(&self.of().list().path)
    }

    fn claim(&self, name: &str, claim: Claim) -> Result<Changed, FeatureError> {
        super::claim(&self.home(), &self.of(), (name, claim), &deadline())
    }

    fn add(&self, draft: &Draft) -> Result<String, FeatureError> {
        super::add(&self.home(), &self.of(), draft, &deadline())
    }
}

fn put(path: &Path, bytes: &[u8]) {
    fs::put(path, bytes, fs::Mode::Ordinary).unwrap();
}

fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path, loop_directory::LARGEST_LIST).unwrap()
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
        let place = Place::new(before.as_bytes());
        assert_eq!(place.claim("1", Claim::Made).unwrap(), Changed::Yes, "{before}");
        assert_eq!(String::from_utf8(place.list()).unwrap(), after);
        assert_eq!(place.claim("feature 1", Claim::Made).unwrap(), Changed::No);
        assert_eq!(place.claim("1", Claim::Undone).unwrap(), Changed::Yes);
        assert_eq!(
            String::from_utf8(place.list()).unwrap(),
            after.replace(": true", ": false").replace(":true", ":false")
        );
    }
}

#[test]
fn features_with_the_same_id_are_named_by_number() {
    let place = Place::new(br#"[{"id": 4}, {"id": 4}]"#);
    assert_eq!(place.claim("4 (2)", Claim::Made).unwrap(), Changed::Yes);
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
        let place = Place::new(list);
        let error = place.claim("1", Claim::Made).unwrap_err().to_string();
        let path = place.of().list().path.display().to_string();
        assert_eq!(error.replace(&path, "$PATH"), expected);
        assert_eq!(place.list(), list);
    }
}

#[test]
fn a_link_is_not_followed_out_of_the_loop() {
    let place = Place::new(b"[]");
    let elsewhere = place.root.path().join("elsewhere.json");
    put(&elsewhere, b"[{\"id\": 1}]");
    std::fs::remove_file(place.of().list().path).unwrap();
    std::os::unix::fs::symlink(&elsewhere, place.of().list().path).unwrap();
    let error = place.claim("1", Claim::Made).unwrap_err();
    assert!(matches!(error, FeatureError::File(_)), "{error}");
    assert_eq!(bytes(&elsewhere), b"[{\"id\": 1}]");
}

/// Each list after a feature was added.
fn added(lists: &[&str]) -> String {
    let mut shown = String::new();
    for list in lists {
        let place = Place::new(list.as_bytes());
        let id = place.add(&feature(None)).unwrap();
        let after = String::from_utf8(place.list()).unwrap().replace('\r', "␍");
        shown.push_str(&format!("--- {id}\n{}\n", after.trim_end()));
    }
    shown
}

/// A new feature is formatted like the existing ones.
#[test]
fn a_feature_is_added_on_one_line_if_the_others_are() {
    let shown = added(&[
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
    let shown = added(&[
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
    let shown = added(&["{\n  \"total_features\": 0,\n  \"features\": []\n}\n", "[\n]\n"]);
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
    let place = Place::new(br#"[{"id": 4}, {"id": "csv-1"}]"#);
    for (id, expected) in [
        ("4", "feature `4` already exists"),
        ("csv-1", "feature `csv-1` already exists"),
        ("a b", "`a b` is not a valid feature id"),
        ("", "`` is not a valid feature id"),
    ] {
        assert_eq!(place.add(&feature(Some(id))).unwrap_err().to_string(), expected);
    }
    assert_eq!(place.add(&feature(Some("csv-2"))).unwrap(), "csv-2");
    assert_eq!(place.add(&feature(None)).unwrap(), "5");
}

#[test]
fn items_of_a_text_become_features() {
    let text = "\u{feff}# Loop\r\n\r\nIntro - not an item\n\n- [ ] Import a CSV file,\n  also a large one\n  - Open it\n    slowly\n  1. See rows\n* [x] Export\n+ Quote \u{1b}[1mfields\n\n```\n- not this\n```\n\n1. First\n2) Second\n-no item\n- \n   text that belongs to nothing\n- [link](x) last\n";
    assert_snapshot!(format!("{:#?}", list_of(text.as_bytes())), @r#"
    [
        Draft {
            id: None,
            description: "Import a CSV file, also a large one",
            steps: [
                "Open it slowly",
                "See rows",
            ],
            passes: false,
            verify: None,
        },
        Draft {
            id: None,
            description: "Export",
            steps: [],
            passes: true,
            verify: None,
        },
        Draft {
            id: None,
            description: "Quote fields",
            steps: [],
            passes: false,
            verify: None,
        },
        Draft {
            id: None,
            description: "First",
            steps: [],
            passes: false,
            verify: None,
        },
        Draft {
            id: None,
            description: "Second",
            steps: [],
            passes: false,
            verify: None,
        },
        Draft {
            id: None,
            description: "text that belongs to nothing",
            steps: [],
            passes: false,
            verify: None,
        },
        Draft {
            id: None,
            description: "[link](x) last",
            steps: [],
            passes: false,
            verify: None,
        },
    ]
    "#);
    for nothing in [&b""[..], b"just text\n", b"\xff\xfe", b"```\n- open fence"] {
        assert_eq!(list_of(nothing), []);
    }
}

#[test]
fn a_loop_is_created_once_and_only_in_the_project() {
    let root = tempfile::tempdir().unwrap();
    let project = fs::resolve(root.path()).unwrap();
    let new = New { name: "csv", source: &Source::Example, goal: None, max_iterations: 15 };
    let made = create(&project, &new).unwrap();
    assert_eq!(loops(&project).unwrap(), std::slice::from_ref(&made));
    let before = bytes(&made.list().path);
    assert!(matches!(create(&project, &new), Err(FeatureError::IsThere(_))));
    assert_eq!(bytes(&made.list().path), before);
    for name in ["", ".", "..", "a/b", "-x", ".x", "a b", "ä", &"x".repeat(65)] {
        let wrong = create(&project, &New { name, ..new.clone() });
        assert!(matches!(wrong, Err(FeatureError::NoName(_))), "{name}");
    }
    let other = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), other.path().join(".claude")).unwrap();
    let project = fs::resolve(other.path()).unwrap();
    assert!(matches!(create(&project, &new), Err(FeatureError::LeadsOut(_))));
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
        let list = features::read(&bytes).unwrap();
        let at = at % list.features.len();
        for wanted in [true, false] {
            let after = edit::with_passes(&bytes, at, wanted).unwrap();
            let mut expected = list.clone();
            expected.features[at].passes = wanted;
            prop_assert_eq!(features::read(&after).unwrap(), expected);
        }
    }

    /// No input makes parsing or editing panic.
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0_usize..3) {
        drop(list_of(&bytes));
        drop(edit::with_passes(&bytes, at, true));
        if let Ok(list) = features::read(&bytes) {
            drop(edit::with_feature(&bytes, &list, &feature(Some("x"))));
        }
    }
}
