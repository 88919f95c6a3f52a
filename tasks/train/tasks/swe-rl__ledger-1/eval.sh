#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 6317dda6bec7732f67ae6ab6b98ff480428364c6 tests/test_account.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_account.py b/tests/test_account.py
index 6207e8e..a63b7ca 100644
--- a/tests/test_account.py
+++ b/tests/test_account.py
@@ -9,6 +9,14 @@ def test_active_is_false_when_empty_and_closed():
     assert not active(Account(0, open=False), 10)
 
 
+def test_active_needs_an_open_account():
+    assert not active(Account(50, open=False), 10)
+
+
+def test_active_needs_funds():
+    assert not active(Account(5), 10)
+
+
 def test_permit_small_amounts():
     assert permit(Account(50), 10)
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_account.py
: '>>>>> End Test Output'
git checkout 6317dda6bec7732f67ae6ab6b98ff480428364c6 tests/test_account.py
