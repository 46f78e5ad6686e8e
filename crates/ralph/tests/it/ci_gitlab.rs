//! `[[ci]]` of GitLab. The real `glab` asks a stand-in of its API on the loopback, over TLS through a proxy. Where it is not
//! installed, a program that answers in its shapes takes its place.

use crate::ci_gate::CiScene;
use crate::sandbox::write_program;
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const PROJECT: &str = "GET /api/v4/projects/space%2Fteam%2Frocket";

/// The directory of `glab`, if it is installed. It is no package of every distribution.
fn glab_directory() -> Option<&'static str> {
    ["/usr/local/bin", "/usr/bin"].into_iter().find(|at| Path::new(at).join("glab").exists())
}

fn job(id: u64, name: &str, status: &str) -> Value {
    json!({ "id": id, "name": name, "status": status, "allow_failure": name == "nightly" })
}

/// R-L7a: each state of the jobs has one outcome. The login of `glab` is used, but not the server and the protocol that its
/// configuration names: with them, an agent could answer.
#[test]
fn the_real_glab_asks_gitlab() {
    let Some(bin) = glab_directory() else { return };
    let scene = CiScene::new(&format!(
        r#"
        [[ci]]
        name = "ci"
        provider = "gitlab"
        repo = "space/team/rocket"
        host = "gitlab.example.com"
        timeout = "1m"
        poll = "100ms"
        start = "200ms"

        [environment]
        set = {{ PATH = "{bin}:/usr/bin:/bin" }}
        "#
    ));
    assert_snapshot!(scene.outcome(), @r#"error: `glab` is not logged in to `gitlab.example.com`: run `glab auth login --hostname gitlab.example.com`, or name the variable with a token: `token = "…"`"#);
    let config = scene.sandbox.home().join(".config/glab-cli");
    fs::create_dir_all(&config).unwrap();
    let hosts = "hosts:\n    gitlab.example.com:\n        token: glpat-0123456789abcdef\n        api_host: other.example.com\n        api_protocol: http\n";
    fs::write(config.join("config.yml"), hosts).unwrap();
    make_private(&config.join("config.yml"));
    let head = scene.head();
    let body = |body: Value| json!([{ "body": body }]);
    let pipeline = |id: u64, status: &str| json!({ "id": id, "sha": head, "ref": "main", "source": "push", "status": status });
    let jobs = format!("{PROJECT}/pipelines/5/jobs");
    let trace = json!("section_start:1:step\r\u{1b}[0Kmake\nmain.c:3:5: error: expected ';'\n");
    let mut report = String::new();
    let pipelines = format!("{PROJECT}/pipelines");
    let commit = format!("{PROJECT}/repository/commits/{head}");
    let forbidden = json!([{ "status": 403, "body": { "message": "403 Forbidden" } }]);
    for (what, answers) in [
        ("no project", vec![]),
        ("not pushed", vec![(PROJECT, body(json!({ "id": 3 })))]),
        (
            "no pipeline",
            vec![(&*commit, body(json!({ "id": head }))), (&*pipelines, body(json!([])))],
        ),
        (
            "no job",
            vec![
                (&*pipelines, body(json!([pipeline(5, "success"), pipeline(4, "failed")]))),
                (&*jobs, body(json!([]))),
            ],
        ),
        (
            "one may fail",
            vec![(&*jobs, body(json!([job(1, "build", "success"), job(2, "nightly", "failed")])))],
        ),
        ("not allowed", vec![(&*jobs, forbidden)]),
        (
            "failed",
            vec![
                (&*format!("{PROJECT}/jobs/1/trace"), body(trace)),
                (&*jobs, body(json!([job(1, "build", "failed")]))),
            ],
        ),
    ] {
        scene.route(&answers);
        scene.sandbox.ralph(["gate", "run", "ci", "--no-cache"]);
        report.push_str(&format!("{what}: {}\n", scene.outcome()));
    }
    assert_snapshot!(report, @r"
    no project: error: `glab` cannot read `space/team/rocket`: no such project, or no access
    not pushed: inconclusive: commit [commit] is not pushed
    no pipeline: inconclusive: no checks were found for commit [commit]
    no job: inconclusive: no checks were found for commit [commit]
    one may fail: passed
    not allowed: error: `glab` got HTTP 403: 403 Forbidden
    failed: failed
    main.c:3 expected ';' [check build]
    ");
    let requests = scene.requests();
    let login = ["gitlab.example.com", "glpat-0123456789abcdef"];
    assert!(!requests.is_empty() && requests.iter().all(|one| one[2..4] == login), "{requests:?}");
}

fn make_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// `glab`, played by a program that answers in its shapes.
#[test]
fn gitlab_is_asked_through_glab() {
    let scene = CiScene::new(
        r#"
        [[ci]]
        name = "ci"
        provider = "gitlab"
        repo = "space/team/rocket"
        timeout = "1m"
        poll = "100ms"
        start = "200ms"

        [environment]
        set = { PATH = "BIN:/usr/bin:/bin" }
        "#,
    );
    let bin = scene.sandbox.root().join("bin");
    let policy = fs::read_to_string(scene.sandbox.project().join("ralph.toml")).unwrap();
    scene.sandbox.write("ralph.toml", policy.replace("BIN", bin.to_str().unwrap()));
    scene.sandbox.commit();
    fs::create_dir(&bin).unwrap();
    write_program(
        &bin.join("glab"),
        &format!(
            r#"#!/bin/sh
            echo "$* token=$GITLAB_TOKEN home=$(test -e "$HOME/.gitconfig" && echo real)" >> {0}/asked
            case "$*" in
                "config get token --host gitlab.com") echo glpat-0123456789abcdef; exit 0 ;;
            esac
            name=$(printf '%s' "$6" | tr -c 'A-Za-z0-9' _)
            if [ -e "{0}/$name" ]; then cat "{0}/$name"; exit 0; fi
            echo '{{"message":"404 Not Found"}}'
            echo 'glab: 404 Not Found (HTTP 404)' >&2
            exit 1
            "#,
            scene.directory.display()
        ),
    );
    scene.sandbox.approve_policy();
    let head = scene.head();
    let answer = |endpoint: &str, body: Value| {
        let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '_' };
        let name: String = endpoint.chars().map(plain).collect();
        fs::write(scene.directory.join(name), body.to_string()).unwrap();
    };
    let project = "projects/space%2Fteam%2Frocket";
    assert_snapshot!(scene.outcome(), @"error: `glab` cannot read `space/team/rocket`: no such project, or no access");
    answer(project, json!({ "id": 3 }));
    assert_snapshot!(scene.outcome(), @"inconclusive: commit [commit] is not pushed");
    answer(&format!("{project}/repository/commits/{head}"), json!({ "id": head }));
    let pipelines = format!("{project}/pipelines?sha={head}&order_by=id&sort=desc&per_page=100");
    let pipeline = |id: u64, status: &str| json!({ "id": id, "sha": head, "ref": "main", "source": "push", "status": status });
    answer(&pipelines, json!([pipeline(5, "success"), pipeline(4, "failed")]));
    let jobs = format!("{project}/pipelines/5/jobs?per_page=100&page=1");
    let job = |id: u64, name: &str, status: &str, optional: bool| json!({ "id": id, "name": name, "status": status, "allow_failure": optional });
    answer(&jobs, json!([job(1, "build", "success", false), job(2, "nightly", "failed", true)]));
    assert_eq!(scene.outcome(), "passed");
    answer(&jobs, json!([job(1, "build", "failed", false)]));
    answer(&format!("{project}/jobs/1/trace"), Value::Null);
    fs::write(
        scene.directory.join(format!("{}_jobs_1_trace", "projects_space_2Fteam_2Frocket")),
        "section_start:1:step\r\u{1b}[0Kmake\nmain.c:3:5: error: expected ';'\n",
    )
    .unwrap();
    scene.sandbox.ralph(["gate", "run", "ci", "--no-cache"]);
    assert_snapshot!(scene.outcome(), @r"
    failed
    main.c:3 expected ';' [check build]
    ");
    let asked = fs::read_to_string(scene.directory.join("asked")).unwrap();
    let first: Vec<&str> = asked.lines().take(2).collect();
    assert_snapshot!(first.join("\n").replace(&head, "[id]"), @r"
    config get token --host gitlab.com token= home=
    api --hostname gitlab.com --method GET projects/space%2Fteam%2Frocket/repository/commits/[id] token=glpat-0123456789abcdef home=
    ");
}
