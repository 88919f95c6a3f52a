#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout df499e535aba3bc774d6a0b82a14f25c40c50ba4 tests/test_team.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_team.py b/tests/test_team.py
index 25b6853..f3c5441 100644
--- a/tests/test_team.py
+++ b/tests/test_team.py
@@ -7,6 +7,10 @@ def test_lead_of_nobody():
     assert lead([]) == []
 
 
+def test_lead_starts_with_the_most_skill():
+    assert [player.name for player in lead(TEAM)] == ["bob", "eve", "ann"]
+
+
 def test_weak_of_nobody():
     assert weak([]) == 0
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_team.py
: '>>>>> End Test Output'
git checkout df499e535aba3bc774d6a0b82a14f25c40c50ba4 tests/test_team.py
