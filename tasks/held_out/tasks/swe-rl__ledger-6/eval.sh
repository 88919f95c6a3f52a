#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout ab79e1e1859f418dee4009ea7efc40ba52402fd7 tests/test_loan.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_loan.py b/tests/test_loan.py
index c4d0e85..1267b62 100644
--- a/tests/test_loan.py
+++ b/tests/test_loan.py
@@ -31,3 +31,7 @@ def test_late_fee_grows():
 
 def test_open_months_of_a_finished_loan():
     assert open_months(Loan(100), True) == 0
+
+
+def test_open_months_of_an_open_loan():
+    assert open_months(Loan(100), False) == 12
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_loan.py
: '>>>>> End Test Output'
git checkout ab79e1e1859f418dee4009ea7efc40ba52402fd7 tests/test_loan.py
