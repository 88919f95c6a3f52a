#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 68481e21fafeca3685c25eb55a557338ca01d582 tests/test_score.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_score.py b/tests/test_score.py
index 39678db..08a6abe 100644
--- a/tests/test_score.py
+++ b/tests/test_score.py
@@ -5,6 +5,10 @@ def test_total_without_a_bonus():
     assert total(Score(2)) == 6
 
 
+def test_total_adds_the_bonus():
+    assert total(Score(2, bonus=4)) == 10
+
+
 def test_total_without_a_win():
     assert total(Score(0, bonus=4)) == 4
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_score.py
: '>>>>> End Test Output'
git checkout 68481e21fafeca3685c25eb55a557338ca01d582 tests/test_score.py
