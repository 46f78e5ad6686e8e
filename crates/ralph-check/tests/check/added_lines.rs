//! Forbidden content of added lines, and similar content that is allowed.

use ralph_check::added_lines::{self, AddedLinesReport, NoUserPatterns, UserPatterns};
use ralph_check::{FileChange, MovedLines};
use ralph_core::policy::{LineCheck, LinePattern, LinePolicy};
use ralph_core::requirement::Finding;
use std::fmt::Write;

fn policy() -> LinePolicy {
    LinePolicy { forbid: LineCheck::ALL.to_vec(), ..LinePolicy::default() }
}

/// Every line of the file is new.
fn check_new_file(path: &str, text: &str) -> AddedLinesReport {
    let added: Vec<u32> = (1..).take(text.lines().count()).collect();
    let change = FileChange { path, before: None, after: Some(text), added: &added };
    added_lines::check_added_lines(&policy(), &change, &MovedLines::default(), &NoUserPatterns)
}

fn finding_line(finding: &Finding) -> String {
    let place = finding.place.as_ref().unwrap();
    format!(
        "{}:{} {}: {}",
        place.line.unwrap(),
        place.column.unwrap(),
        finding.rule.as_deref().unwrap(),
        finding.message
    )
}

fn show_report(checked: &AddedLinesReport) -> String {
    let mut out = String::new();
    for finding in &checked.findings {
        writeln!(out, "    {}", finding_line(finding)).unwrap();
    }
    for allowed in &checked.allowed {
        writeln!(out, "    allowed {} ({})", finding_line(&allowed.finding), allowed.reason)
            .unwrap();
    }
    out
}

fn check_all(rows: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (path, text) in rows {
        writeln!(out, "{path} {text:?}").unwrap();
        out.push_str(&show_report(&check_new_file(path, text)));
    }
    out
}

#[test]
fn unfinished_work_in_comments_is_found() {
    insta::assert_snapshot!(check_all(&[
        ("a.rs", "let a = 1; // TODO: handle overflow"),
        ("a.rs", "/* FIXME(me) */"),
        ("a.rs", "/// XXX this is wrong"),
        ("a.py", "x = 1  # todo: later"),
        ("a.tsx", "{/* TODO add the form */}"),
        ("a.go", "// Fixme: no\n// fixme: yes"),
        ("a.sh", "echo a # TODO b"),
        ("Dockerfile", "FROM a\n# TODO: pin"),
        ("a.yml", "a: b # FIXME"),
        ("a.sql", "select 1 -- TODO index"),
        ("a.html", "<!-- TODO: text --> it's"),
        ("a.css", "a { } /* XXX */"),
        ("a.lua", "-- TODO: one\nprint(1) -- not seen"),
        ("a.vue", "<template><!-- TODO slot --></template>"),
    ]), @r#"
    a.rs "let a = 1; // TODO: handle overflow"
        1:15 todo: `TODO` is left in a comment: handle overflow
    a.rs "/* FIXME(me) */"
        1:4 todo: `FIXME` is left in a comment: (me)
    a.rs "/// XXX this is wrong"
        1:5 todo: `XXX` is left in a comment: this is wrong
    a.py "x = 1  # todo: later"
        1:10 todo: `TODO` is left in a comment: later
    a.tsx "{/* TODO add the form */}"
        1:5 todo: `TODO` is left in a comment: add the form
    a.go "// Fixme: no\n// fixme: yes"
        2:4 todo: `FIXME` is left in a comment: yes
    a.sh "echo a # TODO b"
        1:10 todo: `TODO` is left in a comment: b
    Dockerfile "FROM a\n# TODO: pin"
        2:3 todo: `TODO` is left in a comment: pin
    a.yml "a: b # FIXME"
        1:8 todo: `FIXME` is left in a comment
    a.sql "select 1 -- TODO index"
        1:13 todo: `TODO` is left in a comment: index
    a.html "<!-- TODO: text --> it's"
        1:6 todo: `TODO` is left in a comment: text
    a.css "a { } /* XXX */"
        1:10 todo: `XXX` is left in a comment
    a.lua "-- TODO: one\nprint(1) -- not seen"
        1:4 todo: `TODO` is left in a comment: one
    a.vue "<template><!-- TODO slot --></template>"
        1:16 todo: `TODO` is left in a comment: slot
    "#);
}

#[test]
fn other_uses_of_marker_words_are_allowed() {
    insta::assert_snapshot!(check_all(&[
        ("a.rs", "let s = \"TODO: not one\";"),
        ("a.rs", "let s = r#\"// TODO\"#; fn todo_list() {}"),
        ("a.rs", "// renders the TODO list of `TODO` words"),
        ("a.rs", "// mktemp XXXXXX, call 555-XXX-1234, TODOS, AUTODOC"),
        ("a.py", "\"\"\"Finds TODO: comments.\"\"\""),
        ("a.js", "const a = `// TODO ${b}`; const TODO = 1;"),
        ("a.js", "const a = /\\/\\/ TODO/;"),
        ("a.md", "- TODO: write this\n# FIXME"),
        ("notes.txt", "TODO"),
        ("data.json", "{\"a\": \"// TODO\"}"),
        ("web/node_modules/a/a.js", "// TODO"),
        ("a.sh", "cat <<EOF\n# TODO in a document\nEOF"),
    ]), @r##"
    a.rs "let s = \"TODO: not one\";"
    a.rs "let s = r#\"// TODO\"#; fn todo_list() {}"
    a.rs "// renders the TODO list of `TODO` words"
    a.rs "// mktemp XXXXXX, call 555-XXX-1234, TODOS, AUTODOC"
    a.py "\"\"\"Finds TODO: comments.\"\"\""
    a.js "const a = `// TODO ${b}`; const TODO = 1;"
    a.js "const a = /\\/\\/ TODO/;"
    a.md "- TODO: write this\n# FIXME"
    notes.txt "TODO"
    data.json "{\"a\": \"// TODO\"}"
    web/node_modules/a/a.js "// TODO"
    a.sh "cat <<EOF\n# TODO in a document\nEOF"
    "##);
}

#[test]
fn placeholders_are_found() {
    insta::assert_snapshot!(check_all(&[
        ("a.rs", "fn a() { todo!() }\nfn b() { unimplemented!(\"b\") }"),
        ("a.py", "def a():\n    pass  # implement later"),
        ("a.py", "def a():\n    raise NotImplementedError"),
        ("a.ts", "throw new Error(\"Not implemented\");"),
        ("a.ts", "throw new Error('save() is not implemented yet')"),
        ("A.java", "throw new UnsupportedOperationException(\"Not yet implemented\");"),
        ("a.cs", "throw new NotImplementedException();"),
        ("a.go", "panic(\"not implemented\")\npanic(\"implement me\")"),
        ("a.kt", "fun a(): Int = TODO(\"later\")"),
        ("a.scala", "def a: Int = ???"),
        ("a.swift", "fatalError(\"unimplemented\")"),
        ("a.php", "<?php throw new \\Exception('Not implemented');"),
        ("a.cpp", "throw std::runtime_error(\"not implemented\");"),
        ("a.js", "// ... existing code ..."),
        ("a.js", "// rest of the code here"),
        ("a.py", "    # your code here"),
        ("a.py", "# ..."),
        ("a.go", "// implementation goes here"),
        ("a.js", "return []; // Placeholder"),
        ("a.js", "// In a real implementation, this would call the API"),
    ]), @r##"
    a.rs "fn a() { todo!() }\nfn b() { unimplemented!(\"b\") }"
        1:10 placeholder: `todo!` is a placeholder for missing code
        2:10 placeholder: `unimplemented!` is a placeholder for missing code
    a.py "def a():\n    pass  # implement later"
        2:5 placeholder: `pass` is a placeholder for missing code
    a.py "def a():\n    raise NotImplementedError"
        2:5 placeholder: `raise NotImplementedError` is a placeholder for missing code
    a.ts "throw new Error(\"Not implemented\");"
        1:1 placeholder: `throw` with "Not implemented" is a placeholder for missing code
    a.ts "throw new Error('save() is not implemented yet')"
        1:1 placeholder: `throw` with "save() is not implemented yet" is a placeholder for missing code
    A.java "throw new UnsupportedOperationException(\"Not yet implemented\");"
        1:1 placeholder: `throw` with "Not yet implemented" is a placeholder for missing code
    a.cs "throw new NotImplementedException();"
        1:1 placeholder: `throw new NotImplementedException` is a placeholder for missing code
    a.go "panic(\"not implemented\")\npanic(\"implement me\")"
        1:1 placeholder: `panic` with "not implemented" is a placeholder for missing code
        2:1 placeholder: `panic` with "implement me" is a placeholder for missing code
    a.kt "fun a(): Int = TODO(\"later\")"
        1:16 placeholder: `TODO` is a placeholder for missing code
    a.scala "def a: Int = ???"
        1:14 placeholder: `???` is a placeholder for missing code
    a.swift "fatalError(\"unimplemented\")"
        1:1 placeholder: `fatalError` with "unimplemented" is a placeholder for missing code
    a.php "<?php throw new \\Exception('Not implemented');"
        1:7 placeholder: `throw` with "Not implemented" is a placeholder for missing code
    a.cpp "throw std::runtime_error(\"not implemented\");"
        1:1 placeholder: `throw` with "not implemented" is a placeholder for missing code
    a.js "// ... existing code ..."
        1:1 placeholder: a comment is a placeholder for missing code: ... existing code ...
    a.js "// rest of the code here"
        1:1 placeholder: a comment is a placeholder for missing code: rest of the code here
    a.py "    # your code here"
        1:5 placeholder: a comment is a placeholder for missing code: your code here
    a.py "# ..."
        1:1 placeholder: `...` in a comment is a placeholder for missing code
    a.go "// implementation goes here"
        1:1 placeholder: a comment is a placeholder for missing code: implementation goes here
    a.js "return []; // Placeholder"
        1:12 placeholder: a comment is a placeholder for missing code: Placeholder
    a.js "// In a real implementation, this would call the API"
        1:1 placeholder: a comment is a placeholder for missing code: In a real implementation, this would call the API
    "##);
}

#[test]
fn code_that_resembles_placeholders_is_allowed() {
    insta::assert_snapshot!(check_all(&[
        ("a.rs", "// calls todo!() for each\nlet s = \"unimplemented!()\"; my_todo!();"),
        ("a.py", "class A(ABC):\n    def a(self):\n        raise NotImplementedError"),
        ("a.py", "class A:\n    @abstractmethod\n    def a(self):\n        \"\"\"Doc.\"\"\"\n        raise NotImplementedError()"),
        ("a.py", "def a(x):\n    if x:\n        return 1\n    else:\n        raise NotImplementedError(x)"),
        ("a.py", "raise NotImplementedError(\"subclasses must define a\")"),
        ("a.py", "try:\n    a()\nexcept KeyError:\n    pass  # the cache is cold"),
        ("a.py", "def a(self): ...\nreturn NotImplemented"),
        ("a.ts", "throw new Error(`${kind} is not implemented for unsigned types`)"),
        ("a.ts", "throw new Error(\"not found\"); // not implemented errors become 501"),
        ("a.swift", "fatalError(\"init(coder:) has not been implemented\")"),
        ("a.rs", "/// ...\n/// let a = 1;\n//! # // ...\n/// // your code here"),
        ("a.c", "// first\n// ...\n// last"),
        ("a.tsx", "<input placeholder=\"Your name here\" /> // placeholder text of the field"),
    ]), @r#"
    a.rs "// calls todo!() for each\nlet s = \"unimplemented!()\"; my_todo!();"
    a.py "class A(ABC):\n    def a(self):\n        raise NotImplementedError"
    a.py "class A:\n    @abstractmethod\n    def a(self):\n        \"\"\"Doc.\"\"\"\n        raise NotImplementedError()"
    a.py "def a(x):\n    if x:\n        return 1\n    else:\n        raise NotImplementedError(x)"
    a.py "raise NotImplementedError(\"subclasses must define a\")"
    a.py "try:\n    a()\nexcept KeyError:\n    pass  # the cache is cold"
    a.py "def a(self): ...\nreturn NotImplemented"
    a.ts "throw new Error(`${kind} is not implemented for unsigned types`)"
    a.ts "throw new Error(\"not found\"); // not implemented errors become 501"
    a.swift "fatalError(\"init(coder:) has not been implemented\")"
    a.rs "/// ...\n/// let a = 1;\n//! # // ...\n/// // your code here"
    a.c "// first\n// ...\n// last"
    a.tsx "<input placeholder=\"Your name here\" /> // placeholder text of the field"
    "#);
}

#[test]
fn debug_prints_are_found() {
    insta::assert_snapshot!(check_all(&[
        ("src/a.ts", "console.log(user)\nconsole.debug('x'); console.trace()"),
        ("scripts/a.js", "console.log('built'); \nconsole.dir(x)"),
        ("a.py", "print(\"DEBUG\", x)\nprint(f\"{x=}\")\nprint('here')\nprint(\">>> \" + y)"),
        ("a.py", "from pprint import pprint\npprint(x)"),
        ("a.rs", "dbg!(x); println!(\"here 2\"); eprintln!(\"DEBUG {x:?}\");"),
        ("a.go", "fmt.Println(\"DEBUG\", x)\nspew.Dump(x)"),
        ("A.java", "System.out.println(x);\ne.printStackTrace();"),
        ("a.php", "<?php var_dump($x); dd($x);"),
        ("a.rb", "puts \"DEBUG #{x}\""),
        ("a.c", "printf(\"!!! %d\", x);"),
        ("a.cpp", "std::cerr << \"here\" << x;"),
        ("a.kt", "println(\"DEBUG $x\")"),
    ]), @r#"
    src/a.ts "console.log(user)\nconsole.debug('x'); console.trace()"
        1:1 debug-print: `console.log` is a debug print
        2:1 debug-print: `console.debug` is a debug print
    scripts/a.js "console.log('built'); \nconsole.dir(x)"
        2:1 debug-print: `console.dir` is a debug print
    a.py "print(\"DEBUG\", x)\nprint(f\"{x=}\")\nprint('here')\nprint(\">>> \" + y)"
        1:1 debug-print: `print` is a debug print
        2:1 debug-print: `print` is a debug print
        3:1 debug-print: `print` is a debug print
        4:1 debug-print: `print` is a debug print
    a.py "from pprint import pprint\npprint(x)"
        2:1 debug-print: `pprint` is a debug print
    a.rs "dbg!(x); println!(\"here 2\"); eprintln!(\"DEBUG {x:?}\");"
        1:1 debugger: `dbg!` is left over from debugging
        1:10 debug-print: `println!` is a debug print
    a.go "fmt.Println(\"DEBUG\", x)\nspew.Dump(x)"
        1:1 debug-print: `fmt.Println` is a debug print
        2:1 debug-print: `spew.Dump` is a debug print
    A.java "System.out.println(x);\ne.printStackTrace();"
        1:1 debug-print: `System.out.println` is a debug print
        2:3 debug-print: `printStackTrace()` is a debug print
    a.php "<?php var_dump($x); dd($x);"
        1:7 debug-print: `var_dump` is a debug print
    a.rb "puts \"DEBUG #{x}\""
        1:1 debug-print: `puts` is a debug print
    a.c "printf(\"!!! %d\", x);"
        1:1 debug-print: `printf` is a debug print
    a.cpp "std::cerr << \"here\" << x;"
        1:1 debug-print: `std::cerr` is a debug print
    a.kt "println(\"DEBUG $x\")"
        1:1 debug-print: `println` is a debug print
    "#);
}

#[test]
fn prints_for_users_are_allowed() {
    insta::assert_snapshot!(check_all(&[
        ("src/a.ts", "// console.log(user)\nconst s = 'console.log(x)'; console.error(e); console.warn(w)"),
        ("src/a.ts", "myconsole.log(x); logger.console.log(x)"),
        ("scripts/build.js", "console.log('built')"),
        ("src/cli.ts", "console.log(help)"),
        ("src/x.js", "#!/usr/bin/env node\nconsole.log(1)"),
        ("a.py", "print(\"done\")\nprint(x)\nprint(f\"{x}\")\nlog.debug(\"DEBUG\")\nprint('Debugging tools')"),
        ("a.rs", "println!(\"{x}\"); eprintln!(\"error: {e:?}\"); // dbg!(x)"),
        ("a.go", "fmt.Println(\"listening on\", port)"),
        ("Main.java", "System.out.println(usage);"),
        ("a.rb", "puts \"done\""),
        ("a.c", "printf(\"%d\\n\", x);"),
    ]), @r##"
    src/a.ts "// console.log(user)\nconst s = 'console.log(x)'; console.error(e); console.warn(w)"
    src/a.ts "myconsole.log(x); logger.console.log(x)"
    scripts/build.js "console.log('built')"
    src/cli.ts "console.log(help)"
    src/x.js "#!/usr/bin/env node\nconsole.log(1)"
    a.py "print(\"done\")\nprint(x)\nprint(f\"{x}\")\nlog.debug(\"DEBUG\")\nprint('Debugging tools')"
    a.rs "println!(\"{x}\"); eprintln!(\"error: {e:?}\"); // dbg!(x)"
    a.go "fmt.Println(\"listening on\", port)"
    Main.java "System.out.println(usage);"
    a.rb "puts \"done\""
    a.c "printf(\"%d\\n\", x);"
    "##);
}

#[test]
fn debugger_statements_are_found_and_other_uses_of_their_names_are_not() {
    insta::assert_snapshot!(check_all(&[
        ("a.js", "debugger;\nif (x) { debugger }"),
        ("a.py", "import pdb; pdb.set_trace()\nbreakpoint()\nimport ipdb"),
        ("a.rb", "binding.pry\nbyebug"),
        ("a.cs", "Debugger.Break();"),
        ("a.js", "const a = { debugger: true }; a.debugger; attach(debugger, 'debugger;') // debugger;"),
        ("a.py", "def breakpoint():\n    pass\ndevice.breakpoint()\n\"import pdb\"\nimport pdbutils"),
    ]), @r#"
    a.js "debugger;\nif (x) { debugger }"
        1:1 debugger: `debugger` is left over from debugging
        2:10 debugger: `debugger` is left over from debugging
    a.py "import pdb; pdb.set_trace()\nbreakpoint()\nimport ipdb"
        1:1 debugger: `import pdb` is left over from debugging
        2:1 debugger: `breakpoint()` is left over from debugging
        3:1 debugger: `import ipdb` is left over from debugging
    a.rb "binding.pry\nbyebug"
        1:1 debugger: `binding.pry` is left over from debugging
        2:1 debugger: `byebug` is left over from debugging
    a.cs "Debugger.Break();"
        1:1 debugger: `Debugger.Break()` is left over from debugging
    a.js "const a = { debugger: true }; a.debugger; attach(debugger, 'debugger;') // debugger;"
    a.py "def breakpoint():\n    pass\ndevice.breakpoint()\n\"import pdb\"\nimport pdbutils"
    "#);
}

#[test]
fn skipped_tests_are_found() {
    insta::assert_snapshot!(check_all(&[
        ("a.rs", "#[test]\n#[ignore = \"slow\"]\nfn a() {}"),
        ("a.test.ts", "it.skip('a', () => {})\nxit('b', f)\ndescribe.only('c', f)\nfit('d', f)\ntest.todo('e')"),
        ("test_a.py", "@pytest.mark.skip(reason=\"x\")\ndef test_a(): ...\n@pytest.mark.xfail\ndef test_b():\n    pytest.skip()"),
        ("test_a.py", "@pytest.mark.skipif(True, reason=\"x\")\n@unittest.skip('x')\ndef test_a(): ..."),
        ("a_test.go", "func TestA(t *testing.T) {\n\tt.Skip(\"flaky\")\n}"),
        ("ATest.java", "@Disabled\n@Test void a() {}\n@Ignore(\"x\")"),
    ]), @r##"
    a.rs "#[test]\n#[ignore = \"slow\"]\nfn a() {}"
        2:1 skipped-test: `#[ignore]` keeps a test from running or from counting
    a.test.ts "it.skip('a', () => {})\nxit('b', f)\ndescribe.only('c', f)\nfit('d', f)\ntest.todo('e')"
        1:1 skipped-test: `it.skip` keeps a test from running or from counting
        2:1 skipped-test: `xit` keeps a test from running or from counting
        3:1 skipped-test: `describe.only` excludes every other test
        4:1 skipped-test: `fit` excludes every other test
        5:1 skipped-test: `test.todo` keeps a test from running or from counting
    test_a.py "@pytest.mark.skip(reason=\"x\")\ndef test_a(): ...\n@pytest.mark.xfail\ndef test_b():\n    pytest.skip()"
        1:1 skipped-test: `@pytest.mark.skip` keeps a test from running or from counting
        3:1 skipped-test: `@pytest.mark.xfail` keeps a test from running or from counting
        5:5 skipped-test: `pytest.skip` keeps a test from running or from counting
    test_a.py "@pytest.mark.skipif(True, reason=\"x\")\n@unittest.skip('x')\ndef test_a(): ..."
        1:1 skipped-test: `@pytest.mark.skipif` keeps a test from running or from counting
        2:1 skipped-test: `@unittest.skip` keeps a test from running or from counting
    a_test.go "func TestA(t *testing.T) {\n\tt.Skip(\"flaky\")\n}"
        2:2 skipped-test: `t.Skip` keeps a test from running or from counting
    ATest.java "@Disabled\n@Test void a() {}\n@Ignore(\"x\")"
        1:1 skipped-test: `@Disabled` keeps a test from running or from counting
        3:1 skipped-test: `@Ignore` keeps a test from running or from counting
    "##);
}

#[test]
fn conditional_skips_and_other_uses_of_the_names_are_allowed() {
    insta::assert_snapshot!(check_all(&[
        ("a.rs", "// #[ignore]\nlet s = \"#[ignore]\";"),
        ("a.test.ts", "model.fit(x); it('skip', f); const only = it; // it.skip('a')"),
        ("src/layout.ts", "fit(box); xit(1)"),
        ("test_a.py", "@pytest.mark.skipif(sys.platform == 'win32', reason=\"x\")\ndef test_a():\n    if not docker:\n        pytest.skip('no docker')"),
        ("a_test.go", "if testing.Short() {\n\tt.Skip(\"slow\")\n}"),
        ("src/main/java/A.java", "@Ignore String field;"),
    ]), @r##"
    a.rs "// #[ignore]\nlet s = \"#[ignore]\";"
    a.test.ts "model.fit(x); it('skip', f); const only = it; // it.skip('a')"
    src/layout.ts "fit(box); xit(1)"
    test_a.py "@pytest.mark.skipif(sys.platform == 'win32', reason=\"x\")\ndef test_a():\n    if not docker:\n        pytest.skip('no docker')"
    a_test.go "if testing.Short() {\n\tt.Skip(\"slow\")\n}"
    src/main/java/A.java "@Ignore String field;"
    "##);
}

#[test]
fn a_marker_with_a_reason_allows_a_finding_and_is_listed() {
    insta::assert_snapshot!(check_all(&[
        ("a.rs", "// TODO: a ralph: allow(todo) because upstream has not released it"),
        ("a.rs", "// ralph: allow(todo) because upstream has not released it\n// TODO: a\n// TODO: b"),
        ("a.rs", "dbg!(x); // ralph: allow(debugger, todo) because this is the tracing command"),
        ("a.py", "# ralph: allow(debug-print)\nprint(\"DEBUG\")"),
        ("a.py", "# ralph: allow(debug-print) because short\nprint(\"DEBUG\")"),
        ("a.py", "# ralph: allow(todo) because it is another check\nprint(\"DEBUG\")"),
        ("a.js", "f(); // ralph: allow(debugger) because it belongs to the line above\ndebugger;"),
        ("a.js", "s = \"ralph: allow(debugger) because it is only a string\"; debugger;"),
        ("a.css", "/* TODO ralph: allow(todo) because the design is open */"),
    ]), @r##"
    a.rs "// TODO: a ralph: allow(todo) because upstream has not released it"
        allowed 1:4 todo: `TODO` is left in a comment: a ralph: allow(todo) because upstream has not released it (upstream has not released it)
    a.rs "// ralph: allow(todo) because upstream has not released it\n// TODO: a\n// TODO: b"
        3:4 todo: `TODO` is left in a comment: b
        allowed 2:4 todo: `TODO` is left in a comment: a (upstream has not released it)
    a.rs "dbg!(x); // ralph: allow(debugger, todo) because this is the tracing command"
        allowed 1:1 debugger: `dbg!` is left over from debugging (this is the tracing command)
    a.py "# ralph: allow(debug-print)\nprint(\"DEBUG\")"
        2:1 debug-print: `print` is a debug print; the allow marker needs `because` and a reason of at least 10 characters
    a.py "# ralph: allow(debug-print) because short\nprint(\"DEBUG\")"
        2:1 debug-print: `print` is a debug print; the allow marker needs `because` and a reason of at least 10 characters
    a.py "# ralph: allow(todo) because it is another check\nprint(\"DEBUG\")"
        2:1 debug-print: `print` is a debug print
    a.js "f(); // ralph: allow(debugger) because it belongs to the line above\ndebugger;"
        2:1 debugger: `debugger` is left over from debugging
    a.js "s = \"ralph: allow(debugger) because it is only a string\"; debugger;"
        1:59 debugger: `debugger` is left over from debugging
    a.css "/* TODO ralph: allow(todo) because the design is open */"
        allowed 1:4 todo: `TODO` is left in a comment: ralph: allow(todo) because the design is open (the design is open)
    "##);
}

/// Moved, indented and otherwise edited lines have nothing new, in whichever file they were.
#[test]
fn lines_that_were_there_before_are_not_new() {
    let rows: [(&str, &str, &str, &[u32]); 5] = [
        ("indented", "// TODO: a\nx();\n", "if y {\n    // TODO: a\n    x();\n}\n", &[1, 2, 3, 4]),
        ("continued", "// TODO: a b c d\n// e\n", "// TODO: a b c d e\n", &[1]),
        ("one more", "// TODO: a\n", "// TODO: a\n// TODO: a\n", &[2]),
        ("a reason", "#[ignore]\nfn a() {}\n", "#[ignore = \"slow\"]\nfn a() {}\n", &[1]),
        ("another one", "// TODO: a\n", "// TODO: c\n", &[1]),
    ];
    let mut out = String::new();
    for (name, before, after, added) in rows {
        let change = FileChange { path: "a.rs", before: Some(before), after: Some(after), added };
        let all = [change];
        let moved = MovedLines::new(&all);
        let report = added_lines::check_added_lines(&policy(), &change, &moved, &NoUserPatterns);
        writeln!(out, "{name}").unwrap();
        out.push_str(&show_report(&report));
    }
    let (from, to) = ("// FIXME: a\nfn b() {}\n", "mod c {\n    // FIXME: a\n}\n");
    let all = [
        FileChange { path: "a.rs", before: Some(from), after: Some("fn b() {}\n"), added: &[] },
        FileChange { path: "b.rs", before: None, after: Some(to), added: &[1, 2, 3] },
    ];
    let moved = MovedLines::new(&all);
    out.push_str("in another file\n");
    for change in &all {
        let report = added_lines::check_added_lines(&policy(), change, &moved, &NoUserPatterns);
        out.push_str(&show_report(&report));
    }
    insta::assert_snapshot!(out, @"
    indented
    continued
    one more
        2:4 todo: `TODO` is left in a comment: a
    a reason
    another one
        1:4 todo: `TODO` is left in a comment: c
    in another file
    ");
}

#[test]
fn only_added_lines_are_checked() {
    let text = "// TODO: old\n// TODO: new\n// TODO: old\n";
    let change = FileChange { path: "a.rs", before: None, after: Some(text), added: &[2] };
    insta::assert_snapshot!(show_report(&added_lines::check_added_lines(&policy(), &change, &MovedLines::default(), &NoUserPatterns)), @"    2:4 todo: `TODO` is left in a comment: new");
    let deleted = FileChange { after: None, ..change };
    assert_eq!(
        added_lines::check_added_lines(
            &policy(),
            &deleted,
            &MovedLines::default(),
            &NoUserPatterns
        ),
        AddedLinesReport::default()
    );
}

#[test]
fn only_forbidden_checks_are_reported() {
    let text = "// TODO\ndbg!(x);\ntodo!()";
    let change = FileChange { path: "a.rs", before: None, after: Some(text), added: &[1, 2, 3] };
    let mut out = String::new();
    for check in LineCheck::ALL {
        let policy = LinePolicy { forbid: vec![check], ..LinePolicy::default() };
        writeln!(
            out,
            "{}\n{}",
            check.name(),
            show_report(&added_lines::check_added_lines(
                &policy,
                &change,
                &MovedLines::default(),
                &NoUserPatterns
            ))
        )
        .unwrap();
    }
    insta::assert_snapshot!(out, @"
    todo
        1:4 todo: `TODO` is left in a comment

    placeholder
        3:1 placeholder: `todo!` is a placeholder for missing code

    debug-print
        2:1 debug-print: `dbg!` is a debug print

    debugger
        2:1 debugger: `dbg!` is left over from debugging

    skipped-test
    ");
}

struct SubstringPattern(&'static str);

impl UserPatterns for SubstringPattern {
    fn matches(&self, line: &str, _: &str) -> Vec<(usize, usize)> {
        line.find(self.0).map(|at| (0, at)).into_iter().chain([(9, 0)]).collect()
    }
}

#[test]
fn user_patterns_apply_to_every_file() {
    let policy = LinePolicy {
        patterns: vec![LinePattern {
            name: "no-jquery".into(),
            pattern: "jquery".into(),
            message: "jQuery is gone".into(),
            paths: Vec::new(),
        }],
        ..LinePolicy::default()
    };
    let text =
        "é jquery\njquery <!-- ralph: allow(no-jquery) because the docs are about it -->\njquery";
    let change = |path| FileChange { path, before: None, after: Some(text), added: &[0, 1, 2, 99] };
    let in_prose = added_lines::check_added_lines(
        &policy,
        &change("a.md"),
        &MovedLines::default(),
        &SubstringPattern("jquery"),
    );
    let in_html = added_lines::check_added_lines(
        &policy,
        &change("a.html"),
        &MovedLines::default(),
        &SubstringPattern("jquery"),
    );
    insta::assert_snapshot!(format!("{}--\n{}", show_report(&in_prose), show_report(&in_html)), @"
        1:3 no-jquery: jQuery is gone
        2:1 no-jquery: jQuery is gone
    --
        1:3 no-jquery: jQuery is gone
        allowed 2:1 no-jquery: jQuery is gone (the docs are about it)
    ");
}
