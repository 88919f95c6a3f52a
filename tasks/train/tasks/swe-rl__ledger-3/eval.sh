#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 7cec00d0c3a0fa559b9a2d0cb4bc1a8ba873aada tests/test_account.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_account.py b/tests/test_account.py
index 670bb5d..a63b7ca 100644
--- a/tests/test_account.py
+++ b/tests/test_account.py
@@ -33,5 +33,9 @@ def test_available_without_credit():
     assert available(Account(50), 10) == 40
 
 
+def test_available_counts_the_credit():
+    assert available(Account(50, 20), 10) == 60
+
+
 def test_available_of_a_closed_account():
     assert available(Account(50, 20, open=False), 10) == 0
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_account.py
: '>>>>> End Test Output'
git checkout 7cec00d0c3a0fa559b9a2d0cb4bc1a8ba873aada tests/test_account.py
