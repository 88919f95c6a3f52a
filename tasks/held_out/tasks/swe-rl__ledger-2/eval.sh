#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout a80a4c25a2cd595dec3919d608b7f229b21cac32 tests/test_account.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_account.py b/tests/test_account.py
index f94431b..a63b7ca 100644
--- a/tests/test_account.py
+++ b/tests/test_account.py
@@ -25,6 +25,10 @@ def test_permit_refuses_more_than_the_balance():
     assert not permit(Account(50), 51)
 
 
+def test_permit_the_whole_balance():
+    assert permit(Account(50), 50)
+
+
 def test_available_without_credit():
     assert available(Account(50), 10) == 40
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_account.py
: '>>>>> End Test Output'
git checkout a80a4c25a2cd595dec3919d608b7f229b21cac32 tests/test_account.py
